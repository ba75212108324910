package table

import (
	"bytes"
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
)

func (r *Reader) fence(b int) uint64 { return binary.LittleEndian.Uint64(r.fences[fenceSize*b:]) }

// seek returns the first entry that does not come before (key, seq) in the
// order of the table, keys ascending and sequence numbers descending. At the
// end the block is the count of blocks.
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

// firstBlockFrom returns the first block whose first entry does not come
// before (key, seq).
func (r *Reader) firstBlockFrom(key []byte, seq base.SeqNum) (int, error) {
	n := min(r.shared, len(key))
	if c := bytes.Compare(key[:n], r.first[:n]); c < 0 || c == 0 && n < r.shared {
		return 0, nil
	} else if c > 0 {
		return int(r.blocks), nil
	}
	fence := fenceOf(key[r.shared:])
	from := r.searchFences(fence, 0)
	if from == int(r.blocks) || r.fence(from) != fence {
		return from, nil
	}
	to := int(r.blocks)
	if fence != ^uint64(0) {
		to = r.searchFences(fence+1, from)
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

// searchFences returns the first block from from on whose fence is not less
// than fence, or the count of blocks.
func (r *Reader) searchFences(fence uint64, from int) int {
	to := int(r.blocks)
	for from < to {
		mid := int(uint(from+to) / 2)
		if r.fence(mid) < fence {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// EstimateOffset returns about how many bytes of the table's blocks lie
// before key; it is exact to the size of an extent of keys. It reads fences
// and the directory alone, as far as the fences tell keys apart.
func (r *Reader) EstimateOffset(key []byte) (int64, error) {
	b, err := r.firstBlockFrom(key, base.SeqNumMax)
	if err != nil {
		return 0, err
	}
	if b == int(r.blocks) {
		return r.dataEnd, nil
	}
	e := r.entryOf(b)
	if r.props.ValuePartBytes < r.props.KeyPartBytes {
		return max(0, min(e.keyOff, r.dataEnd)), nil
	}
	return min(e.valOff, r.dataEnd), nil
}
