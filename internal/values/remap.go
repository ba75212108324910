package values

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"runtime"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
)

// A remap maps offsets in pointers to offsets in a rewritten file. Offsets are in units
// of 8 bytes. All numbers take 4 bytes, little-endian:
//
//	buckets + 1   for each bucket, the number of entries before it
//	count         offsets in pointers, ascending
//	count         offsets in the file
//	0 or 4 bytes  zeros, to a multiple of 8
//
// Bucket b holds the offsets from b<<shift on. There is a bucket for every four to
// eight entries, so that a lookup touches two or three cache lines.
type remap struct {
	remapShape
	index, from, to []byte
}

// A remapShape is the part of the footer that describes a remap.
type remapShape struct{ count, buckets, shift uint32 }

// perBucket is the minimum mean number of entries in a bucket.
const perBucket = 4

func (s remapShape) size() int64 {
	if s.count == 0 {
		return 0
	}
	return alignUp(4 * (int64(s.buckets) + 1 + 2*int64(s.count)))
}

// check reports an invalid shape, or one that does not take size bytes. at is the
// shape's offset in the file.
func (s remapShape) check(at, size int64) error {
	if s.count == 0 && (s.buckets != 0 || s.shift != 0) || s.shift > 31 {
		return base.Corrupt(at, "shape of a remap", s, "a valid one")
	}
	if s.size() != size {
		return base.Corrupt(at, "size of a remap", s.size(), size)
	}
	return nil
}

// A move is one entry of a remap.
type move struct{ from, to int64 }

// buildRemap returns the encoding of moves. It sorts moves.
func buildRemap(moves []move) (remapShape, []byte) {
	slices.SortFunc(moves, func(a, b move) int { return cmp.Compare(a.from, b.from) })
	last := uint32(moves[len(moves)-1].from / unit)
	s := remapShape{count: uint32(len(moves))}
	s.shift = uint32(bits.Len32(last / max(1, s.count/perBucket)))
	s.shift = min(s.shift, 31)
	s.buckets = last>>s.shift + 1
	le := binary.LittleEndian
	section := make([]byte, 0, s.size())
	i := uint32(0)
	for b := range s.buckets {
		section = le.AppendUint32(section, i)
		for i < s.count && uint32(moves[i].from/unit)>>s.shift == b {
			i++
		}
	}
	section = le.AppendUint32(section, i)
	for _, m := range moves {
		section = le.AppendUint32(section, uint32(m.from/unit))
	}
	for _, m := range moves {
		section = le.AppendUint32(section, uint32(m.to/unit))
	}
	return s, section[:s.size()]
}

// decodeRemap decodes section, which is at offset at, as the remap of records that end
// at recordsEnd.
func decodeRemap(s remapShape, section []byte, at, recordsEnd int64) (remap, error) {
	if int64(len(section)) != s.size() {
		return remap{}, base.Corrupt(at, "length of a remap", len(section), s.size())
	}
	if s.count == 0 {
		return remap{}, nil
	}
	fromOff, toOff := 4*(int64(s.buckets)+1), 4*(int64(s.buckets)+1+int64(s.count))
	end := toOff + 4*int64(s.count)
	m := remap{remapShape: s, index: section[:fromOff], from: section[fromOff:toOff], to: section[toOff:end]}
	for i := end; i < int64(len(section)); i++ {
		if section[i] != 0 {
			return remap{}, base.Corrupt(at+i, "byte behind a remap", section[i], 0)
		}
	}
	if err := m.check(at, recordsEnd); err != nil {
		return remap{}, err
	}
	return m, nil
}

func load32(b []byte, i uint32) uint32 { return binary.LittleEndian.Uint32(b[4*int(i):]) }

// check reports entries that would mislead a lookup.
func (m *remap) check(at, recordsEnd int64) error {
	if load32(m.index, 0) != 0 || load32(m.index, m.buckets) != m.count {
		return base.Corrupt(at, "bounds of a remap's index", load32(m.index, m.buckets), m.count)
	}
	for b := range m.buckets {
		lo, hi := load32(m.index, b), load32(m.index, b+1)
		if lo > hi || hi > m.count {
			return base.Corrupt(at+4*int64(b), "index of a remap", lo, hi)
		}
		for i := lo; i < hi; i++ {
			from, to := load32(m.from, i), load32(m.to, i)
			if from>>m.shift != b || i > 0 && load32(m.from, i-1) >= from {
				return base.Corrupt(at, "order of a remap", from, "ascending, in its bucket")
			}
			if off := int64(to) * unit; off < fileHeaderSize || off > recordsEnd-recordMin {
				return base.Corrupt(at, "offset in a remap", off, "the offset of a record")
			}
		}
	}
	return nil
}

// find returns the current offset of the record whose pointer has offset off.
func (m *remap) find(off int64) (int64, bool) {
	want := uint32(off / unit)
	b := want >> m.shift
	if b >= m.buckets {
		return 0, false
	}
	lo, hi := load32(m.index, b), load32(m.index, b+1)
	// Load the result's cache line in parallel with the search.
	runtime.KeepAlive(load32(m.to, min(lo, m.count-1)))
	for hi-lo > 2*perBucket {
		if mid := lo + (hi-lo)/2; load32(m.from, mid) <= want {
			lo = mid
		} else {
			hi = mid
		}
	}
	for ; lo < hi; lo++ {
		if load32(m.from, lo) == want {
			return int64(load32(m.to, lo)) * unit, true
		}
	}
	return 0, false
}

// touchIndex and touchEntries bring what find will read for off into the cache, one
// step each. Their results have no meaning.
func (m *remap) touchIndex(off int64) uint32 {
	b := uint32(off/unit) >> m.shift
	if b >= m.buckets {
		return 0
	}
	return load32(m.index, b)
}

func (m *remap) touchEntries(off int64) uint32 {
	b := uint32(off/unit) >> m.shift
	if b >= m.buckets {
		return 0
	}
	lo := min(load32(m.index, b), m.count-1)
	return load32(m.from, lo) + load32(m.to, lo)
}
