package table

import (
	"bytes"
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
)

// A place is where a key lies in the order of the entries: in a block, and how far in it,
// from 0 to 1. The block after the last one is the end.
type place struct {
	block int
	part  float64
}

// placeOf returns about where key lies. It assumes that keys grow evenly from one fence to
// the next. It reads only fences, and some key parts where the fences are equal.
func (r *Reader) placeOf(key []byte) (place, error) {
	s := r.searchFor(key)
	if s.fences == nil { // the start that all keys share is not that of key
		return place{s.from, 0}, nil
	}
	for s.Left > 0 {
		s.Step()
	}
	if b := s.from; r.fenceIs(b, s.want) && !r.fenceIs(b+1, s.want) {
		return place{b, 0}, nil
	}
	b, err := r.firstOfEqual(&s, key, base.SeqNumMax)
	if err != nil || b == 0 {
		return place{b, 0}, err
	}
	from, to := r.fence(b-1), ^uint64(0)
	if from == s.want {
		return place{b - 1, 0.5}, nil
	}
	switch largest := r.props.Largest; {
	case b < int(r.blocks):
		to = r.fence(b)
	case len(largest) >= r.shared && bytes.Equal(largest[:r.shared], r.first[:r.shared]):
		to = base.Head(largest[r.shared:])
	}
	if s.want >= to {
		return place{b, 0}, nil
	}
	return place{b - 1, float64(s.want-from) / float64(to-from)}, nil
}

// fenceIs reports whether there is a block b, and whether it has the fence want.
func (r *Reader) fenceIs(b int, want uint64) bool {
	return b < int(r.blocks) && r.fence(b) == want
}

// places returns the places of lo and hi; nil is no bound.
func (r *Reader) places(lo, hi []byte) (from, to place, err error) {
	if lo != nil {
		if from, err = r.placeOf(lo); err != nil {
			return from, to, err
		}
	}
	to = place{block: int(r.blocks)}
	if hi != nil {
		to, err = r.placeOf(hi)
	}
	return from, to, err
}

// Part returns about how many entries the table has from lo, inclusive, to hi, exclusive,
// and how many bytes of its blocks these are. nil is no bound. Part reads fences and
// the directory, and a few key parts where fences are equal. It is exact to a part of a
// block at each bound.
func (r *Reader) Part(lo, hi []byte) (entries, size int64, err error) {
	from, to, err := r.places(lo, hi)
	if err != nil || to.block < from.block || to.block == from.block && to.part <= from.part {
		return 0, 0, err
	}
	var n, sum float64
	add := func(b int, part float64) {
		if b < int(r.blocks) {
			e := r.entryOf(b)
			n += part * float64(e.count)
			sum += part * (float64(e.keyLen) + float64(e.valLen))
		}
	}
	add(from.block, -from.part)
	for b := from.block; b < to.block; b++ {
		add(b, 1)
	}
	add(to.block, to.part)
	return max(0, int64(n+0.5)), max(0, int64(sum+0.5)), nil
}

// Separators returns up to n ascending keys that cut the entries from lo to hi into parts
// of about equal size. A separator is what the fence of a block tells about its first key,
// and so not always a key of the table. If the block before has the same fence, it is the
// first key itself.
func (r *Reader) Separators(lo, hi []byte, n int) (keys [][]byte, err error) {
	from, to, err := r.places(lo, hi)
	if err != nil {
		return nil, err
	}
	blocks := to.block - from.block
	n = min(n, blocks-1)
	for i := 1; i <= n; i++ {
		b := from.block + int(int64(blocks)*int64(i)/int64(n+1))
		fence := r.fence(b)
		if b > 0 && r.fence(b-1) == fence {
			v, err := r.view(b)
			if err != nil {
				return nil, err
			}
			keys = append(keys, v.appendKey(nil, 0))
			continue
		}
		key := binary.BigEndian.AppendUint64(bytes.Clone(r.first[:r.shared]), fence)
		keys = append(keys, bytes.TrimRight(key, "\x00"))
	}
	return keys, nil
}
