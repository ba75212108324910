package ingest

import (
	"bytes"
	"cmp"
	"iter"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// chunkSize is the size in bytes of the memory in which a sorter collects entries. A
	// longer entry has a chunk of its own.
	chunkSize = 1 << 20
	// itemSize is about what an item takes in memory, in bytes.
	itemSize = 56
)

// A sorter sorts entries in memory. Of equal keys it keeps the last one.
type sorter struct {
	chunk []byte // has room for further entries
	items []item
	bytes int64 // in memory, about
}

// An item is an entry of a sorter.
type item struct {
	head       uint64 // the first bytes of the key, in an order like that of the keys
	key, value []byte
	meta       base.Meta
}

// add copies an entry.
func (s *sorter) add(e *Entry) {
	n := len(e.Key) + len(e.Value)
	if cap(s.chunk)-len(s.chunk) < n {
		s.chunk = make([]byte, 0, max(chunkSize, n))
	}
	at := len(s.chunk)
	s.chunk = append(append(s.chunk, e.Key...), e.Value...)
	all := s.chunk[at:len(s.chunk):len(s.chunk)]
	i := item{key: all[:len(e.Key):len(e.Key)], value: all[len(e.Key):], meta: e.Meta}
	i.head = base.Head(i.key)
	s.items = append(s.items, i)
	s.bytes += int64(n) + itemSize
}

// sorted yields the entries in the order of their keys, and forgets them.
func (s *sorter) sorted() iter.Seq2[Entry, error] {
	items := s.items
	s.items, s.chunk, s.bytes = nil, nil, 0
	slices.SortStableFunc(items, func(a, b item) int {
		if c := cmp.Compare(a.head, b.head); c != 0 {
			return c
		}
		return bytes.Compare(a.key, b.key)
	})
	return func(yield func(Entry, error) bool) {
		for i := range items {
			other := i + 1
			if mutant.On(mutant.BulkKeepsFirst) {
				other = i - 1
			}
			if other >= 0 && other < len(items) && bytes.Equal(items[i].key, items[other].key) {
				continue
			}
			if !yield(Entry{Key: items[i].key, Value: items[i].value, Meta: items[i].meta}, nil) {
				return
			}
		}
	}
}
