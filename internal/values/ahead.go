package values

import (
	"encoding/binary"
	"runtime"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/mutant"
)

// AheadSize is the maximum number of values that an Ahead finds together.
const AheadSize = 64

// prefetchGap is the largest gap in bytes between two records that one request
// fetches. Reading the gap costs less than another request.
const prefetchGap = 16 << 10

// Ahead finds several values together, before the caller reads the first. A single
// lookup is a chain of cache misses: remap, mark, record. Ahead does each step for
// all values before the next step, so that their misses overlap.
//
// It only improves speed. If Get returns false, the caller must use Reader.Get, which
// also reports errors. The zero value is empty. One goroutine at a time may use an
// Ahead. Clear releases the readers.
type Ahead struct {
	n     int
	used  int // largest n since Clear
	reads [AheadSize]aheadRead
	// touched has no meaning. It keeps the compiler from removing the loads.
	touched uint64
	// forward verifies what a scan comes to after the added values.
	forward readahead
}

// An aheadRead is one value of an Ahead.
type aheadRead struct {
	v *view
	// at is the offset of the record, 0 if the pointer is invalid.
	at       int64
	length   int64
	off      int64 // offset in the pointer
	valueLen uint32
	valueOff uint32 // from the start of the record
	key      []byte
	seq      base.SeqNum // of the record
	verified bool
	found    bool // the record has the value, and not compressed
}

// Begin forgets all values.
func (a *Ahead) Begin() { a.n = 0 }

// Clear releases the readers.
func (a *Ahead) Clear() {
	a.forward.stop()
	clear(a.reads[:a.used])
	a.n, a.used = 0, 0
}

// Add adds the value that p points to in r, which must be that of version seq of key. The
// key must not change until Get has returned the value. A nil r means no value. The
// pointer is passed by reference, because the registers do not hold all arguments.
func (a *Ahead) Add(r *Reader, p *Pointer, key []byte, seq base.SeqNum) {
	x := &a.reads[a.n]
	a.n++
	if mutant.On(mutant.AheadStale) && x.found {
		return
	}
	x.at, x.verified, x.found = 0, false, false
	if r == nil {
		x.v = nil
		return
	}
	v := r.v.Load()
	if v == nil {
		v, _ = r.mapped() // Reader.Get reports the error
	}
	r.gauge.Touch()
	x.v, x.key = v, key
	x.off, x.length, x.valueLen, x.valueOff = p.Offset, p.Length(), p.ValueLen, uint32(headerSize+len(key))
	x.seq = p.Of(seq)
}

// Load finds the added values. Among the first fetch values it starts to read from the
// file those that may not be in memory. It does not wait for them. It returns how many
// of the added values are not verified.
func (a *Ahead) Load(fetch int) (missing int) {
	if missing = a.lookUp(); missing > 0 && fetch > 0 {
		a.fetch(min(fetch, a.n))
	}
	return missing
}

// LoadScan is Load for the next values of a scan. It may start a readahead, unless fetch is
// zero or less.
func (a *Ahead) LoadScan(fetch int) (missing int) { return a.loadScan(fetch, processors) }

// processors returns on how many processors goroutines run.
func processors() int { return runtime.GOMAXPROCS(0) }

// loadScan is LoadScan on a machine with that many processors.
func (a *Ahead) loadScan(fetch int, processors func() int) (missing int) {
	missing = a.lookUp()
	if fetch <= 0 {
		return missing
	}
	a.forward.round(a.reads[:a.n], missing, processors)
	if missing > 0 {
		a.fetch(min(fetch, a.n))
	}
	return missing
}

// lookUp finds the added values that are verified. It returns how many are not.
func (a *Ahead) lookUp() (missing int) {
	a.used = max(a.used, a.n)
	a.placeAll()
	for i := range a.reads[:a.n] {
		if x := &a.reads[i]; x.at != 0 {
			if x.verified = x.v.marks.has(x.at); !x.verified {
				missing++
			}
		}
	}
	sum := uint64(0)
	for i := range a.reads[:a.n] {
		x := &a.reads[i]
		if !x.verified || int64(x.valueOff) >= x.length {
			continue
		}
		rec := x.v.data[x.at : x.at+x.length]
		sum += uint64(rec[0]) + uint64(rec[x.valueOff]) + uint64(rec[len(rec)-1])
	}
	a.touched += sum
	a.find()
	return missing
}

// placeAll finds the places of all records.
func (a *Ahead) placeAll() {
	var moved [AheadSize]uint8
	n, sum := 0, uint32(0)
	for i := range a.reads[:a.n] {
		x := &a.reads[i]
		if x.v == nil {
			continue
		}
		if x.v.remap.count > 0 {
			moved[n] = uint8(i)
			n++
			sum += x.v.remap.touchIndex(x.off)
			continue
		}
		x.place(x.off)
	}
	for _, i := range moved[:n] {
		x := &a.reads[i]
		sum += x.v.remap.touchEntries(x.off)
	}
	for _, i := range moved[:n] {
		x := &a.reads[i]
		if to, ok := x.v.remap.find(x.off); ok {
			x.place(to)
		}
	}
	a.touched += uint64(sum)
}

func (x *aheadRead) place(at int64) {
	if x.v.holds(at, x.length) {
		x.at = at
	}
}

// fetch starts to read the unverified among the first n records.
func (a *Ahead) fetch(n int) {
	var room [AheadSize]extent
	found := room[:0]
	for i := range a.reads[:n] {
		if x := &a.reads[i]; x.at != 0 && !x.verified && !x.v.advised.has(x.at, x.at+x.length) {
			found = append(found, extent{x.v, x.at, x.length})
		}
	}
	neighbours(found, func(some []extent, from, to int64) { some[0].v.advise(from, to) })
}

// find finds the values of the verified records that are not compressed.
func (a *Ahead) find() {
	for i := range a.reads[:a.n] {
		if x := &a.reads[i]; x.verified {
			x.find()
		}
	}
}

// Get returns the i-th added value. The bytes are those of Reader.Get. It returns false if
// the record was not verified before, or if anything is wrong; then the caller must use
// Reader.Get.
func (a *Ahead) Get(i int, arena *codec.Arena) ([]byte, bool) {
	x := &a.reads[i]
	if !x.found && x.verified {
		return x.decode(arena)
	}
	return a.Found(i), x.found
}

// Found returns the i-th added value if Get needs no memory of the file to return it, and
// nil otherwise.
func (a *Ahead) Found(i int) []byte {
	x := &a.reads[i]
	if !x.found {
		return nil
	}
	from, to := x.at+int64(x.valueOff), x.at+int64(x.valueOff)+int64(x.valueLen)
	return x.v.data[from:to:to]
}

// find sets found if a verified record has the value. It leaves a compressed record, and
// one with which anything is wrong.
func (x *aheadRead) find() {
	rec := x.v.data[x.at : x.at+x.length : x.at+x.length]
	le := binary.LittleEndian
	h := rec[:headerSize]
	from, to := int64(x.valueOff), int64(x.valueOff)+int64(x.valueLen)
	// The last eight bytes of a header hold the key length and no codec. A chunked
	// record has more data behind its value; Reader.Get handles it. For version 0, see
	// header.is.
	seq := le.Uint64(h[8:])
	x.found = (seq == uint64(x.seq) || seq == 0) && le.Uint32(h[16:]) == x.valueLen && le.Uint32(h[20:]) == x.valueLen &&
		le.Uint64(h[24:]) == uint64(len(x.key)) && alignUp(to) == x.length &&
		string(rec[headerSize:from]) == string(x.key)
}

// decode is Get for a record that may be compressed.
func (x *aheadRead) decode(arena *codec.Arena) ([]byte, bool) {
	rec := x.v.data[x.at : x.at+x.length : x.at+x.length]
	h := loadHeader(rec)
	if !h.compressed() || h.size() != x.length || !h.is(Pointer{lengths: lengths{ValueLen: x.valueLen}}, x.key, x.seq, rec) {
		return nil, false
	}
	value, err := h.decode(rec[h.valueOff():h.valueEnd()], x.at, arena)
	return value, err == nil
}
