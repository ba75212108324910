package iter

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// sliceSource is a Source over entries in memory. With volatile keys, its next
// Fill overwrites the keys that it lent, as in sources that rebuild keys.
type sliceSource struct {
	entries  []base.Entry // ascending keys, descending sequence numbers
	reverse  bool
	volatile bool
	at       int
	lent     [][]byte
	failAt   int // Fill fails when it reaches this entry; -1 never
	err      error
	fills    int
}

func newSliceSource(entries []base.Entry, reverse, volatile bool) *sliceSource {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b base.Entry) int {
		return cmp.Or(bytes.Compare(a.Key, b.Key), -cmp.Compare(a.Seq, b.Seq))
	})
	return &sliceSource{entries: sorted, reverse: reverse, volatile: volatile, failAt: -1}
}

func (s *sliceSource) Seek(key []byte) {
	switch {
	case key == nil && s.reverse:
		s.at = len(s.entries) - 1
	case key == nil:
		s.at = 0
	default:
		s.at, _ = slices.BinarySearchFunc(s.entries, key, func(e base.Entry, key []byte) int {
			return cmp.Or(bytes.Compare(e.Key, key), 1) // the first with a key >= key
		})
		if s.reverse {
			s.at--
		}
	}
}

func (s *sliceSource) Fill(b *Batch) error {
	s.fills++
	for _, k := range s.lent {
		for i := range k {
			k[i] = 0xdb
		}
	}
	s.lent = s.lent[:0]
	b.N = 0
	for b.N < b.Want && s.at >= 0 && s.at < len(s.entries) {
		if s.at == s.failAt {
			b.N = 0
			return s.err
		}
		e := s.entries[s.at]
		key := e.Key
		if s.volatile {
			key = bytes.Clone(key)
			s.lent = append(s.lent, key)
		}
		b.Entries[b.N] = base.Entry{Key: key, Value: e.Value, Seq: e.Seq, Meta: e.Meta}
		b.N++
		if !s.volatile { // some sources never set it
			b.Plain = b.IsPlain()
		}
		if s.reverse {
			s.at--
		} else {
			s.at++
		}
	}
	return nil
}
