package tree

import (
	"bytes"
	"math/bits"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/table"
)

// A level is a list of tables that do not overlap, in key order: one run of level 0,
// or one of the levels below. A search compares fences: the 8 bytes of a bound after
// the prefix of all keys. It rarely reads the bounds themselves. A level is immutable,
// except for readers.
type level struct {
	tables []*Table
	prefix []byte   // the common prefix of all keys of the level
	fences []uint64 // for each table, the fence of its smallest key
	ends   []uint64 // for each table, the fence of its largest key
	// readers holds each table's reader once a point read needed it. They are
	// contiguous: a read of many levels has a cache miss for each place it
	// loads.
	readers []atomic.Pointer[table.Reader]
	newest  base.SeqNum // no version in the level is newer
	bounds  int64       // bytes of the keys that bound the tables
	// deletions are the range tombstones of the tables, nil if there are none.
	deletions *levelDeletions
}

func newLevel(tables []*Table) level {
	n := len(tables)
	l := level{tables: tables, fences: make([]uint64, n), ends: make([]uint64, n), readers: make([]atomic.Pointer[table.Reader], n)}
	first, last := tables[0], tables[len(tables)-1]
	l.prefix = first.Smallest[:base.CommonLen(first.Smallest, last.Largest)]
	for i, t := range tables {
		invariant.Check(i == 0 || tables[i-1].EndsBefore(t.Smallest),
			"table %d of a level begins before the end of the one before it", i)
		l.fences[i] = base.Head(t.Smallest[min(len(l.prefix), len(t.Smallest)):])
		l.ends[i] = base.Head(t.Largest[min(len(l.prefix), len(t.Largest)):])
		l.newest = max(l.newest, t.LargestSeq)
		l.bounds += int64(len(t.Smallest) + len(t.Largest))
		if t.RangeDeletions > 0 && l.deletions == nil {
			l.deletions = new(levelDeletions)
		}
	}
	return l
}

// after returns the first table whose smallest key is greater than key or, with
// orAt, not less. It returns the number of tables if there is none.
func (l *level) after(key []byte, orAt bool) int {
	n := min(len(l.prefix), len(key))
	switch c := bytes.Compare(key[:n], l.prefix[:n]); {
	case c < 0 || c == 0 && n < len(l.prefix):
		return 0
	case c > 0:
		return len(l.tables)
	}
	fence := base.Head(key[n:])
	from := l.lowerFence(fence)
	to := from
	for to < len(l.fences) && l.fences[to] == fence {
		to++
	}
	for from < to {
		mid := int(uint(from+to) / 2)
		if c := bytes.Compare(l.tables[mid].Smallest, key); c < 0 || c == 0 && !orAt {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// lowerFence returns the index of the first fence that is not less than fence, or
// the number of fences. It has no branches that depend on the fences, because the
// processor could not predict them.
func (l *level) lowerFence(fence uint64) int {
	from, n := 0, len(l.fences)
	for n > 1 {
		half := n / 2
		_, less := bits.Sub64(l.fences[from+half-1], fence, 0)
		from += half & -int(less)
		n -= half
	}
	if n == 1 {
		_, less := bits.Sub64(l.fences[from], fence, 0)
		from += int(less)
	}
	return from
}

// reader returns the reader of the only table that may hold a version of key
// up to at, or nil.
func (l *level) reader(files *Files, key []byte, at base.SeqNum) (*table.Reader, error) {
	i := l.after(key, false) - 1
	if i < 0 || at < l.newest && l.tables[i].SmallestSeq > at {
		return nil, nil
	}
	if r := l.readers[i].Load(); r != nil {
		return r, nil
	}
	r, err := files.reader(l.tables[i])
	if err == nil {
		l.readers[i].Store(r)
	}
	return r, err
}

// from returns the first table with keys at or after key; nil is the first.
func (l *level) from(key []byte) int {
	if key == nil {
		return 0
	}
	i := l.after(key, false)
	if i > 0 && !l.endsBefore(i-1, key) {
		i--
	}
	return i
}

// endsBefore reports whether table i has no key at or after key.
func (l *level) endsBefore(i int, key []byte) bool {
	if bytes.HasPrefix(key, l.prefix) {
		if fence := base.Head(key[len(l.prefix):]); fence != l.ends[i] {
			return l.ends[i] < fence
		}
	}
	return l.tables[i].EndsBefore(key)
}

// before returns the last table with keys before key, or -1. With nil it is the
// last table.
func (l *level) before(key []byte) int {
	if key == nil {
		return len(l.tables) - 1
	}
	return l.after(key, true) - 1
}
