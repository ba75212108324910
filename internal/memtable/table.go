package memtable

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

// Options say what a table is for.
type Options struct {
	// Memory is where blocks come from. Default: Heap().
	Memory Memory
	// ChunkSize is the size in bytes of the first chunk of entries; further
	// ones double up to 2 MiB. Rounded up to a power of two from 256 B.
	// Default: 64 KiB.
	ChunkSize int
	// SizeHint is how many entries to expect. The insertion order and the
	// index are sized by it when they are first needed.
	SizeHint int
	// Keep is how many bytes of entries Reset may keep for the table's next
	// life; as many again may stay for the other structures. Default: the
	// first chunk.
	Keep int
	// TailMax is how many entries may wait unsorted before the writer sorts
	// the oldest of them. Default: 256 Ki, which a reader sorts in less than
	// 20 ms.
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
// Set, AppendTable, Stamp, Reset, Release, LiveLen and DataBytes are the
// writer's: one goroutine at a time, and LiveLen and DataBytes anybody's once
// the table takes no more writes and one of them has been called. All other methods may be called by any
// number of goroutines at any time before Release or Reset.
type Table struct {
	// What readers touch.
	index atomic.Pointer[index]
	arena arena
	// stamp is the sequence number of the table's pending entries.
	stamp atomic.Uint64
	// published is how many entries of the insertion order are complete.
	published atomic.Uint32
	order     order
	// ranges leads to the range deletions, nil if there are none.
	ranges atomic.Pointer[rangeLog]
	// deletions is how many entries delete something.
	deletions atomic.Uint64

	// What the writer keeps.
	opts  Options
	mem   counted
	last  base.SeqNum // the highest sequence number so far
	keys  uint64      // keys in the table, each counted once
	gone  uint64      // keys in the index whose only version was buried
	dead  uint32      // pending entries that were overwritten or buried
	data  int64       // bytes of keys and values, without dead entries
	stale []*index    // outgrown, kept for readers that still use them
	spare *index      // kept by Reset for the next life
	// touched has no meaning. Loads that only bring lines into the cache end
	// here, so that the compiler keeps them.
	touched pair

	runs runs
}

// New returns an empty table. It holds no blocks until the first write.
func New(o Options) *Table {
	t := &Table{opts: o.withDefaults()}
	t.mem.mem = t.opts.Memory
	t.arena.init(&t.mem, t.opts.ChunkSize)
	t.order.init(&t.mem, t.opts.SizeHint)
	return t
}

// Set adds a version of key. Under sequence number 0 it is pending, and an
// older pending version of the key dies. Sequence numbers never descend; two
// versions may have the same one, and then the later one is the newer. hash is
// the key's base.Hash. When Set fails the table is as before.
//
// With KindDeleteRange it adds a deletion of the keys from key, inclusive, to
// value, exclusive, or to the end of all keys if value has no bytes. Pending
// versions of those keys die with it.
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
		t.kill(old, n)
	}
	p := makePair(h, r)
	t.order.set(n, p)
	if ix := t.index.Load(); ix != nil {
		ix.put(p, old)
	}
	if m.Kind == base.KindDelete {
		t.deletions.Add(1)
	}
	t.last = seq
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

// fill writes all of a new entry but key and value. raw is the sequence number
// or, of a pending entry, the place.
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

// kill marks the pending entry old as overwritten by the one at place n.
func (t *Table) kill(old Ref, n uint32) {
	e := t.arena.at(old)
	w := e.word()
	invariant.Check(w&isPending != 0, "a pending write over a committed one")
	if e.diesAt() != 0 {
		// It was buried, and the key comes back.
		t.keys++
		t.gone--
		return
	}
	t.data -= int64(wordKeyLen(w)) + int64(wordValueLen(w))
	t.dead++
	e.setDiesAt(uint64(n) + 1)
}

// reserve makes room for more entries after n in everything but the arena.
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
// into one.
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

// Warm brings the place in the index where the search for a hash begins into the
// cache. A reader of several tables asks all of them first, so that it waits for
// their cache misses together. It returns a number of no meaning.
func (t *Table) Warm(hash uint64) uint64 {
	if ix := t.index.Load(); ix != nil {
		return uint64(ix.touch(uint32(hash >> 32)))
	}
	return 0
}

// Get returns the newest version of key with a sequence number of at most at;
// a deletion is a version. Range deletions have no part in it, see Cover, but
// for this: what one of the same transaction has killed is not there. The value is borrowed until Release or Reset.
func (t *Table) Get(key []byte, hash uint64, at base.SeqNum) (value []byte, m base.Meta, seq base.SeqNum, ok bool) {
	r := t.find(key, uint32(hash>>32))
	if r == 0 {
		return nil, base.Meta{}, 0, false
	}
	e := t.arena.at(r)
	w := e.word()
	if w&isPending != 0 && t.buries(e, w) {
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

// Stamp gives all pending entries the sequence number seq, which makes a
// transaction's table one of the database's.
func (t *Table) Stamp(seq base.SeqNum) {
	invariant.Check(t.last == 0, "a stamp on entries that have sequence number %d", t.last)
	t.bury()
	t.stamp.Store(uint64(seq))
	t.last = seq
}

// Len returns the number of entries: all versions, and dead ones too.
func (t *Table) Len() int { return int(t.published.Load()) }

// LiveLen returns the number of entries that are not dead, range deletions
// included.
func (t *Table) LiveLen() int {
	t.bury()
	return int(t.published.Load() - t.dead)
}

// Deletions returns how many entries delete a key or a range of keys, dead ones
// too.
func (t *Table) Deletions() uint64 { return t.deletions.Load() }

// Keys returns the number of different keys that have versions; pending ones
// that a range deletion has killed count until LiveLen is called.
func (t *Table) Keys() int { return int(t.keys) }

// DataBytes returns the bytes of the keys and values of the entries that are
// not dead.
func (t *Table) DataBytes() int64 {
	t.bury()
	return t.data
}

// Bytes returns the memory the table holds.
func (t *Table) Bytes() int64 { return t.mem.held.Load() + t.ranges.Load().bytes() }
