package table

import "github.com/stoatdb/stoat/internal/codec"

// AheadSize is the maximum number of lookups that an Ahead prepares together.
const AheadSize = 128

// Ahead prepares lookups in tables before the first of them. A single Get is a chain of
// waits for memory or for the file: slot, directory entry, key part, value. Ahead takes
// each step for all lookups before the next step, so that their waits overlap. The
// processor overlaps only nearby loads. So each step first computes all addresses, and
// then loads from them in a short loop.
//
// It only improves speed, and it reports no errors: Get does. The zero value is empty.
// One goroutine at a time may use an Ahead. Clear releases the readers.
type Ahead struct {
	n    int
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
	r    *Reader
	hash uint64
	// block and entry are where the key is, if the table has it.
	block, entry int
}

// Clear releases the readers, and forgets all lookups.
func (a *Ahead) Clear() {
	clear(a.asks[:a.n])
	a.n = 0
}

// Left returns how many lookups Add can still take.
func (a *Ahead) Left() int { return AheadSize - a.n }

// Add adds the lookup of a key by its hash.
func (a *Ahead) Add(r *Reader, hash uint64) {
	a.asks[a.n] = ask{r: r, hash: hash}
	a.n++
}

// aim adds a place to the step.
func (a *Ahead) aim(place *byte) {
	a.places[a.aimed] = place
	a.aimed++
}

// touch loads all places of the step.
func (a *Ahead) touch() {
	sum := uint64(0)
	for _, place := range a.places[:a.aimed] {
		sum += uint64(*place)
	}
	a.touched += sum
	a.aimed = 0
}

// Load brings what the added lookups will read into the processor's cache. It starts to
// read what may not be in memory, and waits only for the slots.
func (a *Ahead) Load() {
	for i := range a.asks[:a.n] {
		x := &a.asks[i]
		x.r.aimSlots(a, x.hash)
	}
	a.touch()
	found := 0
	for i := range a.asks[:a.n] {
		x := &a.asks[i]
		var ok bool
		if x.block, x.entry, ok = x.r.locate(x.hash); ok {
			a.aim(&x.r.directory[x.block*blockEntrySize])
			a.asks[found], *x = *x, a.asks[found]
			found++
		}
	}
	a.touch()
	again := 0
	for i := range a.asks[:found] {
		x := &a.asks[i]
		if x.r.aimEntry(a, x.block, x.entry) {
			a.asks[again], *x = *x, a.asks[again]
			again++
		}
	}
	a.touch()
	for i := range a.asks[:again] {
		x := &a.asks[i]
		x.r.aimEnds(a, x.block, x.entry)
	}
	a.touch()
}

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

// locate returns the place of the first key whose slot has the tag of hash. That is the
// right key in all but one of hundreds of cases.
func (r *Reader) locate(hash uint64) (block, entry int, ok bool) {
	x := &r.shape
	slot, tag := x.home(hash)
	shift := x.pageShift()
	for left := x.slots; left > 0; left-- {
		if page := int(slot >> shift); !r.pagesOK.has(page) && r.verifyPage(page, true) != nil {
			return 0, 0, false
		}
		s := x.load(r.index, slot)
		if s == 0 {
			return 0, 0, false
		}
		if s>>(x.posBits&63) == tag {
			b, i, err := r.place(s & (1<<(x.posBits&63) - 1))
			return b, i, err == nil
		}
		if slot++; slot == x.slots {
			slot = 0
		}
	}
	return 0, 0, false
}

// aimEntry aims at what the directory alone tells about entry i of block b. more says
// that aimEnds can aim at the rest. If the block was not read before, aimEntry starts to
// read it.
func (r *Reader) aimEntry(a *Ahead, b, i int) (more bool) {
	if !r.keysOK.has(b) {
		r.fetchBlock(b)
		return false
	}
	var v view // a result of viewVerified would be copied, which takes long here
	v.decode(r.directory[b*blockEntrySize:])
	v.part = r.data[v.keyOff : v.keyOff+int64(v.keyLen)]
	v.lay()
	if i >= v.count {
		return false
	}
	a.aim(&v.part[0])
	a.aim(&v.part[v.oSeqs+i*v.seqs.bytes()-1])
	if more = v.kEnds != width0 || v.vEnds != width0; more {
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
		r.aimValue(a, &v, i*int(v.valueLen), (i+1)*int(v.valueLen))
	}
	return more
}

// aimEnds aims at the suffix and the value of entry i of block b.
func (r *Reader) aimEnds(a *Ahead, b, i int) {
	v := r.viewVerified(b)
	if from, _ := v.span(v.kEnds, v.oKEnds, i, uint64(v.suffixLen)); v.oSuffixes+int(from) < len(v.part) {
		a.aim(&v.part[v.oSuffixes+int(from)])
	}
	if from, to := v.valueSpan(i); r.valsOK.has(b) {
		r.aimValue(a, &v, from, to)
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
