package table

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
)

func (r *Reader) fence(b int) uint64 { return binary.LittleEndian.Uint64(r.fences[fenceSize*b:]) }

// seek returns the first entry that is not before (key, seq) in the order of the
// table: keys ascending, sequence numbers descending. At the end, block is the
// number of blocks.
func (r *Reader) seek(key []byte, seq base.SeqNum) (block, entry int, err error) {
	after, err := r.firstBlockFrom(key, seq)
	if err != nil || after == 0 {
		return 0, 0, err
	}
	v, err := r.view(after - 1)
	if err != nil {
		return 0, 0, err
	}
	if i := v.search(key, seq); i < v.count {
		return after - 1, i, nil
	}
	return after, 0, nil
}

// firstBlockFrom returns the first block whose first entry is not before (key, seq).
func (r *Reader) firstBlockFrom(key []byte, seq base.SeqNum) (int, error) {
	s := r.searchFor(key)
	for s.Left > 0 {
		s.Step()
	}
	return r.firstOfEqual(&s, key, seq)
}

// A FenceSearch searches for the first block whose fence is not less than that of a
// key. It has no branches that depend on the fences, because the processor
// could not predict them. A search of several tables interleaves the steps of all.
type FenceSearch struct {
	// Left is the number of fences left to search; 0 at the end.
	Left   int
	from   int
	want   uint64
	fences []byte
}

// Step halves the rest, which must not be empty.
func (s *FenceSearch) Step() {
	half := (s.Left + 1) / 2
	fence := binary.LittleEndian.Uint64(s.fences[fenceSize*(s.from+half-1):])
	_, less := bits.Sub64(fence, s.want, 0)
	s.from += half & -int(less)
	s.Left -= half
}

// searchFor starts the search for the fence of key. For a key without the common
// prefix the search is already finished.
func (r *Reader) searchFor(key []byte) FenceSearch {
	n := min(r.shared, len(key))
	switch c := bytes.Compare(key[:n], r.first[:n]); {
	case c < 0 || c == 0 && n < r.shared:
		return FenceSearch{}
	case c > 0:
		return FenceSearch{from: int(r.blocks)}
	}
	want := base.Head(key[n:])
	from := topGroup * r.groupOf(want)
	return FenceSearch{Left: min(int(r.blocks)-from, topGroup), from: from, want: want, fences: r.fences}
}

// topGroup is the number of blocks of a group. Memory holds one fence of each group, so
// a search reads no more than one group of fences from the file.
const topGroup = 16

// readTops copies the last fence of each whole group to memory.
func (r *Reader) readTops() {
	r.tops = make([]uint64, int(r.blocks)/topGroup)
	for i := range r.tops {
		r.tops[i] = r.fence((i+1)*topGroup - 1)
	}
}

// groupOf returns the first group whose last fence is not less than want.
func (r *Reader) groupOf(want uint64) int {
	tops, from, left := r.tops, 0, len(r.tops)
	for left > 0 {
		half := (left + 1) / 2
		_, less := bits.Sub64(tops[from+half-1], want, 0)
		from += half & -int(less)
		left -= half
	}
	return from
}

// firstOfEqual returns the first block whose first entry is not before (key, seq).
// s has found the first block whose fence is not less than that of key.
func (r *Reader) firstOfEqual(s *FenceSearch, key []byte, seq base.SeqNum) (int, error) {
	from, to := s.from, s.from
	if s.fences != nil && from < int(r.blocks) && r.fence(from) == s.want {
		to = r.endOfEqual(from, s.want)
	}
	for from < to {
		mid := int(uint(from+to) / 2)
		v, err := r.view(mid)
		if err != nil {
			return 0, err
		}
		if v.before(0, key, seq) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from, nil
}

// endOfEqual returns the first block at or after from whose fence is not fence, or
// the number of blocks.
func (r *Reader) endOfEqual(from int, fence uint64) int {
	if fence == ^uint64(0) {
		return int(r.blocks)
	}
	s := FenceSearch{Left: int(r.blocks) - from, from: from, want: fence + 1, fences: r.fences}
	for s.Left > 0 {
		s.Step()
	}
	return s.from
}
