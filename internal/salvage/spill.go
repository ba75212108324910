package salvage

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// take takes an entry. It sorts what it has before the memory is full.
func (r *logReader) take(key, value []byte, seq base.SeqNum, m base.Meta) error {
	if m.Kind == base.KindDeleteRange {
		r.deletions = append(r.deletions, rangedel.Deletion{Lo: bytes.Clone(key), Hi: bytes.Clone(base.LoadedBound(value)), Seq: seq})
		return nil
	}
	if r.bytes > r.s.o.SpillSize {
		if err := r.spill(); err != nil {
			return err
		}
	}
	const perEntry = 96 // of base.Entry, in bytes
	r.bytes += len(key) + len(value) + perEntry
	own := make([]byte, 0, len(key)+len(value))
	own = append(append(own, key...), value...)
	r.entries = append(r.entries, base.Entry{Key: own[:len(key):len(key)], Value: own[len(key):], Seq: seq, Meta: m})
	return nil
}

// sorted returns a source of the entries in memory.
func (r *logReader) sorted() source {
	slices.SortStableFunc(r.entries, func(a, b base.Entry) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), cmp.Compare(b.Seq, a.Seq))
	})
	// Recovery writes a transaction again.
	same := func(a, b base.Entry) bool { return a.Seq == b.Seq && bytes.Equal(a.Key, b.Key) }
	list := &list{entries: slices.CompactFunc(r.entries, same)}
	r.entries, r.bytes = nil, 0
	return list
}

// spill writes the entries in memory to a table.
func (r *logReader) spill() error {
	m, err := newMerger([]source{r.sorted()})
	if err != nil {
		return err
	}
	merged, err := r.s.mergeRaw(m, true)
	r.spilled = append(r.spilled, merged)
	return err
}

// A list is a source in memory.
type list struct {
	entries []base.Entry
	current entry
}

func (l *list) next() (*entry, error) {
	if len(l.entries) == 0 {
		return nil, nil
	}
	l.current = entry{Entry: l.entries[0], rank: ofLog}
	l.entries = l.entries[1:]
	return &l.current, nil
}

func (l *list) close() { l.entries = nil }
