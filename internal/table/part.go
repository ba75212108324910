package table

import (
	"bytes"
	"encoding/binary"
)

// A place is where a key lies in the order of the entries: in a block, and how far in it,
// from 0 to 1. The block after the last one is the end.
type place struct {
	block int
	part  float64
}

// placeOf returns about where key lies. It reads only fences, and assumes that keys grow
// evenly from one fence to the next.
func (r *Reader) placeOf(key []byte) place {
	s := r.searchFor(key)
	inside := s.Left > 0
	for s.Left > 0 {
		s.Step()
	}
	b := s.from
	if !inside || b == 0 || b < int(r.blocks) && r.fence(b) == s.want {
		return place{b, 0}
	}
	from, to := r.fence(b-1), ^uint64(0)
	switch largest := r.props.Largest; {
	case b < int(r.blocks):
		to = r.fence(b)
	case len(largest) >= r.shared && bytes.Equal(largest[:r.shared], r.first[:r.shared]):
		to = fenceOf(largest[r.shared:])
	}
	if s.want >= to {
		return place{b, 0}
	}
	return place{b - 1, float64(s.want-from) / float64(to-from)}
}

// places returns the places of lo and hi; nil is no bound.
func (r *Reader) places(lo, hi []byte) (from, to place) {
	if lo != nil {
		from = r.placeOf(lo)
	}
	to = place{block: int(r.blocks)}
	if hi != nil {
		to = r.placeOf(hi)
	}
	return from, to
}

// Part returns about how many entries the table has from lo, inclusive, to hi, exclusive,
// and how many bytes of its blocks these are. nil is no bound. Part reads only fences and
// the directory. It is exact to a part of a block at each bound.
func (r *Reader) Part(lo, hi []byte) (entries, size int64) {
	from, to := r.places(lo, hi)
	if to.block < from.block || to.block == from.block && to.part <= from.part {
		return 0, 0
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
	return max(0, int64(n+0.5)), max(0, int64(sum+0.5))
}

// Separators returns up to n ascending keys that cut the entries from lo to hi into parts
// of about equal size. It reads only fences. So a separator is not always a key of the
// table: it has what the fence of a block tells about its first key.
func (r *Reader) Separators(lo, hi []byte, n int) (keys [][]byte) {
	from, to := r.places(lo, hi)
	blocks := to.block - from.block
	n = min(n, blocks-1)
	for i := 1; i <= n; i++ {
		fence := r.fence(from.block + int(int64(blocks)*int64(i)/int64(n+1)))
		key := binary.BigEndian.AppendUint64(bytes.Clone(r.first[:r.shared]), fence)
		keys = append(keys, bytes.TrimRight(key, "\x00"))
	}
	return keys
}
