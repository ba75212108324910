package memtable

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// Options configure a table.
type Options struct {
	// Memory provides the blocks. Default: Heap().
	Memory Memory
	// ChunkSize is the size in bytes of the first chunk of entries. Further
	// chunks double up to 2 MiB. It is rounded up to a power of two from 256 B.
	// Default: 64 KiB.
	ChunkSize int
	// SizeHint is the expected number of entries. It sizes the insertion order
	// and the index when they are first needed.
	SizeHint int
	// Keep is how many bytes of entries Reset may keep for the table's next use.
	// The other structures may keep as many again. Default: the first chunk.
	Keep int
	// TailMax is how many entries may be unsorted before the writer sorts the
	// oldest of them. Default: 256 Ki, which a reader sorts in less than 20 ms. Only tests
	// set it.
	TailMax int
}

const (
	chunkSizeDefault = 64 << 10
	chunkSizeMin     = 256
	tailMaxDefault   = 256 << 10
)

func (o Options) withDefaults() Options {
	if o.Memory == nil {
		o.Memory = Heap()
	}
	if o.ChunkSize <= 0 {
		o.ChunkSize = chunkSizeDefault
	}
	size := chunkSizeMin
	for size < o.ChunkSize && size < chunkMax {
		size *= 2
	}
	o.ChunkSize = size
	o.SizeHint = max(o.SizeHint, 0)
	o.Keep = max(o.Keep, o.ChunkSize)
	if o.TailMax <= 0 {
		o.TailMax = tailMaxDefault
	}
	o.TailMax = min(o.TailMax, math.MaxInt32)
	return o
}

// A Table is a set of versions of keys in memory. It must not be copied.
//
// Only one goroutine at a time, the writer, may call Set, AppendTable, Stamp,
// Reset, Release, LiveLen and DataBytes. Once the table takes no more writes and
// one of LiveLen and DataBytes was called, any goroutine may call these two. Any
// number of goroutines may call all other methods at any time before Release or
// Reset.
type Table struct {
	// Fields that readers use.
	index atomic.Pointer[index]
	arena arena
	// stamp is the sequence number of the table's pending entries.
	stamp atomic.Uint64
	// published is how many entries of the insertion order are complete.
	published atomic.Uint32
	order     order
	// ranges holds the range deletions, nil if there are none.
	ranges atomic.Pointer[rangeLog]
	// deletions is how many entries delete keys or ranges.
	deletions atomic.Uint64
	// partials bounds the keys of partial entries, nil if there are none.
	partials atomic.Pointer[partialSpan]
	// partialKeys is at least the number of keys that have partial entries.
	partialKeys atomic.Uint64
	// shownData is data after the last write with a sequence number.
	shownData atomic.Int64

	// Fields that the writer maintains. Readers that sort also allocate from
	// mem.
	opts  Options
	mem   counted
	last  base.SeqNum // the highest sequence number so far
	keys  uint64      // different keys in the table
	gone  uint64      // keys in the index whose only version a range deletion marked dead
	dead  uint32      // pending entries that are overwritten or marked deleted
	data  int64       // bytes of keys and values, without dead entries
	stale []*index    // outgrown, kept for readers that still use them
	spare *index      // kept by Reset for the next use
	// touched has no meaning. It receives the results of loads that prefetch, so
	// that the compiler keeps them.
	touched pair

	runs runs
}

// New returns an empty table. It allocates no blocks until the first write.
func New(o Options) *Table {
	t := &Table{opts: o.withDefaults()}
	t.mem.mem = t.opts.Memory
	t.arena.init(&t.mem, t.opts.ChunkSize)
	t.order.init(&t.mem, t.opts.SizeHint)
	return t
}

// Set adds a version of key. Under sequence number 0 the version is pending, and
// replaces an older pending version of the key. Sequence numbers never descend.
// Of two versions with the same number, the later one is newer. hash is the
// key's base.Hash. If Set fails, the table is unchanged.
//
// With KindDeleteRange, Set adds a deletion of the keys from key, inclusive, to
// value, exclusive. An empty value stands for the end of all keys. The deletion
// also hides pending versions of those keys.
func (t *Table) Set(key, value []byte, hash uint64, m base.Meta, seq base.SeqNum) error {
	if m.Kind == base.KindDeleteRange {
		return t.deleteRange(key, value, hash, seq)
	}
	if err := checkSizes(len(key), uint64(len(value))); err != nil {
		return err
	}
	if seq < t.last {
		return descends(seq, t.last)
	}
	invariant.Check(m.Kind <= kindMask, "kind %d does not fit an entry", m.Kind)
	h := uint32(hash >> 32)
	n := t.published.Load()
	if err := t.reserve(n, 1); err != nil {
		return err
	}
	old := t.find(key, h)
	w, raw := makeWord(len(key), len(value), m), uint64(seq)
	if seq == 0 {
		w, raw = w|isPending, uint64(n)
	} else if old != 0 {
		w |= hasOlder
	}
	r, e, err := t.arena.alloc(w)
	if err != nil {
		return err
	}
	t.fill(e, w, old, m.ExpiresAt, raw)
	copy(e.key(w), key)
	copy(e.value(w), value)
	t.data += int64(len(key)) + int64(len(value))
	switch {
	case old == 0:
		t.keys++
	case seq == 0:
		t.overwrite(old, n)
	}
	p := makePair(h, r)
	t.order.set(n, p)
	if ix := t.index.Load(); ix != nil {
		ix.put(p, old)
	}
	if m.Kind == base.KindDelete {
		t.deletions.Add(1)
	}
	if m.Kind.Partial() {
		t.notePartial(key, old)
	}
	t.last = seq
	if seq != 0 {
		t.shownData.Store(t.data)
	}
	t.published.Store(n + 1)
	t.boundTail(n + 1)
	return nil
}

func checkSizes(keyLen int, valueLen uint64) error {
	if keyLen == 0 || keyLen > base.MaxKeySize {
		return fmt.Errorf("memtable: key of %d bytes, want 1 to %d", keyLen, base.MaxKeySize)
	}
	if valueLen > base.MaxValueSize {
		return fmt.Errorf("memtable: value of %d bytes, want at most %d", valueLen, uint64(base.MaxValueSize))
	}
	return nil
}

func descends(seq, last base.SeqNum) error {
	return fmt.Errorf("memtable: sequence number %d after %d", seq, last)
}

// fill writes all of a new entry except key and value. raw is the sequence
// number or, for a pending entry, its place.
func (t *Table) fill(e entry, w uint64, old Ref, expiresAt, raw uint64) {
	e.setWord(w)
	e.setRawSeq(raw)
	if w&hasExpiry != 0 {
		e.setExpiry(expiresAt)
	}
	if w&hasOlder != 0 {
		e.setLinks(w, t.arena.linksTo(old))
	}
}

// overwrite marks the pending entry old as overwritten by the one at place n.
func (t *Table) overwrite(old Ref, n uint32) {
	e := t.arena.at(old)
	w := e.word()
	invariant.Check(w&isPending != 0, "a pending write overwrites a committed one")
	if e.diesAt() != 0 {
		// markDeleted had marked it: the key is live again.
		t.keys++
		t.gone--
		return
	}
	t.data -= int64(wordKeyLen(w)) + int64(wordValueLen(w))
	t.dead++
	e.setDiesAt(uint64(n) + 1)
}

// reserve makes room for more entries after n, except in the arena.
func (t *Table) reserve(n uint32, more uint64) error {
	total := uint64(n) + more
	if err := t.order.reserve(total); err != nil {
		return err
	}
	ix := t.index.Load()
	keys := t.keys + t.gone + more
	if total <= smallMax || keys <= ix.room() {
		return nil
	}
	return t.grow(ix, keys)
}

// grow replaces the index ix, which may be nil, by one with room for keys.
func (t *Table) grow(ix *index, keys uint64) error {
	want := slotBits(keys)
	if ix == nil {
		want = max(want, slotBits(uint64(t.opts.SizeHint)))
	}
	to := t.spare
	if to != nil && to.room() >= keys {
		t.spare = nil
	} else {
		var err error
		if to, err = newIndex(&t.mem, want); err != nil {
			return err
		}
	}
	if ix != nil {
		ix.copyTo(to)
		t.stale = append(t.stale, ix)
	} else {
		t.indexSmall(to)
	}
	t.index.Store(to)
	return nil
}

// indexSmall puts the newest version of each key of a table without an index
// into to.
func (t *Table) indexSmall(to *index) {
	for i := t.published.Load(); i > 0; i-- {
		p := t.order.at(i - 1)
		e := t.arena.at(pairRef(p))
		if e.isPoint() && to.find(&t.arena, e.key(e.word()), pairHash(p)) == 0 {
			to.put(p, 0)
		}
	}
}

// find returns the newest version of key, or 0.
func (t *Table) find(key []byte, hash uint32) Ref {
	if ix := t.index.Load(); ix != nil {
		return ix.find(&t.arena, key, hash)
	}
	n := t.published.Load()
	if n == 0 {
		return 0
	}
	pairs := t.order.span(0, min(n, smallMax))
	for i := len(pairs) - 1; i >= 0; i-- {
		if pairHash(pairs[i]) != hash {
			continue
		}
		if e := t.arena.at(pairRef(pairs[i])); e.hasKey(key) && e.isPoint() {
			return pairRef(pairs[i])
		}
	}
	return 0
}

// Warm loads the home of a hash in the index into the processor's cache. A
// reader of several tables calls it for all of them first, so that their cache
// misses overlap. The result has no meaning.
func (t *Table) Warm(hash uint64) uint64 {
	if ix := t.index.Load(); ix != nil {
		return uint64(ix.touch(uint32(hash >> 32)))
	}
	return 0
}

// WarmEntry is Warm for the entry that a hash leads to. found reports whether there is
// one, which is then the entry of the key in nearly all cases.
func (t *Table) WarmEntry(hash uint64) (touched uint64, found bool) {
	ix := t.index.Load()
	if ix == nil {
		return 0, false
	}
	r := ix.first(uint32(hash >> 32))
	if r == 0 {
		return 0, false
	}
	return t.arena.at(r).word(), true
}

// Get returns the newest version of key with a sequence number of at most at. A
// deletion is a version. Get ignores range deletions, see Cover, with one
// exception: it does not return a version that a range deletion of the same
// transaction covers. The value is borrowed until Release or Reset.
func (t *Table) Get(key []byte, hash uint64, at base.SeqNum) (value []byte, m base.Meta, seq base.SeqNum, ok bool) {
	r := t.find(key, uint32(hash>>32))
	if r == 0 {
		return nil, base.Meta{}, 0, false
	}
	e := t.arena.at(r)
	w := e.word()
	if w&isPending != 0 && t.isDeleted(e, w) {
		return nil, base.Meta{}, 0, false
	}
	seq = t.seq(e, w)
	if seq > at {
		if e, w = t.visibleAt(e, at); e.p == nil {
			return nil, base.Meta{}, 0, false
		}
		seq = t.seq(e, w)
	}
	return e.value(w), e.meta(w), seq, true
}

// Stamp gives all pending entries the sequence number seq. This turns a
// transaction's table into one of the database's memtables.
func (t *Table) Stamp(seq base.SeqNum) {
	invariant.Check(t.last == 0, "Stamp of entries that have sequence number %d", t.last)
	t.markDeleted()
	t.shownData.Store(t.data)
	t.stamp.Store(uint64(seq))
	t.last = seq
}

// Len returns the number of entries, including old versions and dead ones.
func (t *Table) Len() int { return int(t.published.Load()) }

// LiveLen returns the number of entries that are not dead, range deletions
// included.
func (t *Table) LiveLen() int {
	t.markDeleted()
	return int(t.published.Load() - t.dead)
}

// Deletions returns how many entries delete a key or a range of keys, dead ones
// included.
func (t *Table) Deletions() uint64 { return t.deletions.Load() }

// DataBytes returns the bytes of the keys and values of the entries that are not
// dead.
func (t *Table) DataBytes() int64 {
	t.markDeleted()
	return t.data
}

// ShownBytes is DataBytes of the entries that have sequence numbers. Any goroutine may
// call it beside the writer.
func (t *Table) ShownBytes() int64 { return t.shownData.Load() }

// Bytes returns the memory that the table holds.
func (t *Table) Bytes() int64 { return t.mem.held.Load() + t.ranges.Load().bytes() }
