package table

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// AheadSize is the maximum number of lookups that an Ahead prepares together.
const AheadSize = 128

// Ahead prepares lookups in tables before the first of them. A single Get is a chain of
// waits for memory or for the file: slot, directory entry, key part, value. Ahead takes
// each step for all lookups before the next step, so that their waits overlap. The
// processor overlaps only nearby loads. So each step first computes all addresses, and
// then loads from them in a short loop.
//
// Get goes on where Load ended. Load reports no errors: then Get begins anew. The zero
// value is empty. One goroutine at a time may use an Ahead. Clear releases the readers.
type Ahead struct {
	n    int
	used int // largest n before the last Begin, since Clear
	asks [AheadSize]ask
	// places are the addresses of a step.
	places [placesMax * AheadSize]*byte
	aimed  int
	// touched has no meaning. It keeps the compiler from removing the loads.
	touched uint64
}

// placesMax is the greatest number of places of one lookup in one step.
const placesMax = 7

// An ask is one lookup of an Ahead.
type ask struct {
	r     *Reader
	hash  uint64
	state askState
	// block and entry are where the key is, if the table has it.
	block, entry int
	v            view // of the block
}

// An askState is what Load knows about a lookup.
type askState uint8

const (
	askUnknown askState = iota
	askAbsent           // the table has no such key
	askLocated          // block and entry are known
	askLaid             // the view, too
	askEnds             // the same, and aimEnds has more to load
)

// Begin forgets all lookups.
func (a *Ahead) Begin() {
	a.used = max(a.used, a.n)
	a.n, a.aimed = 0, 0
}

// Clear releases the readers, and forgets all lookups. The Go garbage collector must not
// find addresses in files that are no longer mapped.
func (a *Ahead) Clear() {
	a.Begin()
	clear(a.asks[:a.used])
	clear(a.places[:placesMax*a.used])
	a.used = 0
}

// Left returns how many lookups Add can still take.
func (a *Ahead) Left() int { return AheadSize - a.n }

// Len returns how many lookups were added.
func (a *Ahead) Len() int { return a.n }

// Add adds the lookup of a key by its hash.
func (a *Ahead) Add(r *Reader, hash uint64) {
	x := &a.asks[a.n]
	x.r, x.hash, x.state = r, hash, askUnknown
	a.n++
}

// aim adds a place to the step.
func (a *Ahead) aim(place *byte) {
	a.places[a.aimed] = place
	a.aimed++
}

// touch loads all places of the step.
func (a *Ahead) touch() {
	sum, places := uint64(0), a.places[:a.aimed]
	a.aimed = 0
	for _, place := range places {
		sum += uint64(*place)
	}
	a.touched += sum
}

// Load brings what the added lookups will read into the processor's cache. It starts to
// read what may not be in memory, and waits only for the slots.
func (a *Ahead) Load() {
	asks := a.asks[:a.n]
	for i := range asks {
		x := &asks[i]
		x.r.aimSlots(a, x.hash)
	}
	a.touch()
	for i := range asks {
		x := &asks[i]
		if x.locate(); x.state == askLocated {
			a.aim(&x.r.directory[x.block*blockEntrySize])
		}
	}
	a.touch()
	for i := range asks {
		if x := &asks[i]; x.state == askLocated {
			x.aimEntry(a)
		}
	}
	a.touch()
	for i := range asks {
		if x := &asks[i]; x.state == askEnds {
			x.aimEnds(a)
		}
	}
	a.touch()
}

// Get is Reader.Get of the i-th added lookup, whose key is key. It goes on once where Load
// ended, because the view may then be that of an older version.
func (a *Ahead) Get(i int, key []byte, at base.SeqNum, arena *codec.Arena) (value []byte, meta base.Meta, seq base.SeqNum, ok bool, err error) {
	x := &a.asks[i]
	if x.state == askAbsent {
		return
	}
	if x.state >= askLaid && x.r.keysOK.has(x.block) && x.v.is(key, x.entry) {
		x.state = askUnknown
		x.r.gauge.Touch()
		return x.r.read(x.block, x.entry, &x.v, key, at, arena)
	}
	return x.r.Get(key, x.hash, at, arena)
}

// Deletions returns the range tombstones of the table of the i-th added lookup.
func (a *Ahead) Deletions(i int) *rangedel.List { return a.asks[i].r.deletions }

// aimSlots aims at the slots that a search for a hash reads. If they are not in memory,
// it starts to read them.
func (r *Reader) aimSlots(a *Ahead, hash uint64) {
	slot, _ := r.shape.home(hash)
	if page := int(slot >> r.shape.pageShift()); !r.pagesOK.has(page) {
		from := page * pageSize
		_ = r.m.WillNeed(r.hashOff()+int64(from), int64(min(pageSize, len(r.index)-from))) // Get reports errors
		return
	}
	at := slot * uint64(r.shape.slotBytes)
	a.aim(&r.index[at])
	a.aim(&r.index[min(at+warmBytes, at|(pageSize-1), uint64(len(r.index)-1))])
}

// locate finds the place of the first key whose slot has the tag of the hash. That is the
// right key in all but one of hundreds of cases.
func (x *ask) locate() {
	r, h := x.r, &x.r.shape
	slot, tag := h.home(x.hash)
	shift := h.pageShift()
	for left := h.slots; left > 0; left-- {
		if page := int(slot >> shift); !r.pagesOK.has(page) && r.verifyPage(page, true) != nil {
			return
		}
		s := h.load(r.index, slot)
		if s == 0 {
			x.state = askAbsent
			return
		}
		if s>>(h.posBits&63) == tag {
			var err error
			if x.block, x.entry, err = r.place(s & (1<<(h.posBits&63) - 1)); err == nil {
				x.state = askLocated
			}
			return
		}
		if slot++; slot == h.slots {
			slot = 0
		}
	}
}

// aimEntry aims at what the directory alone tells about the entry. If the block was not
// read before, aimEntry starts to read it.
func (x *ask) aimEntry(a *Ahead) {
	r, b, i, v := x.r, x.block, x.entry, &x.v
	if !r.keysOK.has(b) {
		r.fetchBlock(b)
		return
	}
	r.viewInto(b, v)
	if i >= v.count {
		return // Get reports it
	}
	x.state = askLaid
	a.aim(&v.part[0])
	a.aim(&v.part[v.oSeqs+i*v.seqs.bytes()-1])
	if v.kEnds != width0 || v.vEnds != width0 {
		x.state = askEnds
		a.aim(&v.part[v.oKEnds+i*v.kEnds.bytes()])
		a.aim(&v.part[v.oVEnds+i*v.vEnds.bytes()-1])
	}
	if at := v.oSuffixes + i*int(v.suffixLen); v.kEnds == width0 && at < len(v.part) {
		a.aim(&v.part[at])
	}
	switch {
	case !r.valsOK.has(b):
		r.fetchValues(&v.blockEntry)
	case v.vEnds == width0:
		r.aimValue(a, v, i*int(v.valueLen), (i+1)*int(v.valueLen))
	}
}

// aimEnds aims at the suffix and the value of the entry.
func (x *ask) aimEnds(a *Ahead) {
	v, i := &x.v, x.entry
	if from, _ := v.span(v.kEnds, v.oKEnds, i, uint64(v.suffixLen)); v.oSuffixes+int(from) < len(v.part) {
		a.aim(&v.part[v.oSuffixes+int(from)])
	}
	if from, to := v.valueSpan(i); x.r.valsOK.has(x.block) {
		x.r.aimValue(a, v, from, to)
	}
}

// aimValue aims at both ends of a value, unless it is compressed or has no bytes.
func (r *Reader) aimValue(a *Ahead, v *view, from, to int) {
	if v.codec != codec.None || from >= to || to > int(v.valLen) {
		return
	}
	value := r.data[v.valOff : v.valOff+int64(v.valLen)]
	a.aim(&value[from])
	a.aim(&value[to-1])
}

// fetchBlock starts to read block b.
func (r *Reader) fetchBlock(b int) {
	e := r.entryOf(b)
	if r.checkEntry(b, &e) != nil {
		return // Get reports it
	}
	_ = r.m.WillNeed(e.keyOff, int64(e.keyLen)) // Get reports errors
	if !r.valsOK.has(b) {
		r.fetchValues(&e)
	}
}

// fetchValues starts to read the values of a block.
func (r *Reader) fetchValues(e *blockEntry) {
	if e.valLen > 0 && !r.crowded() {
		_ = r.m.WillNeed(e.valOff, int64(e.valLen)) // Get reports errors
	}
}
