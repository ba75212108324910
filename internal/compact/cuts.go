package compact

import (
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// flushPieceMin is the smallest useful table of a flush in bytes: a smaller one is not
// worth its sync.
const flushPieceMin = 1 << 20

// flushSplitMin is the minimum size in bytes of a flushed table that ends at a split. Where
// keys are few, a table may continue beyond a split.
const flushSplitMin = flushPieceMin / 4

const (
	// roomParts is the minimum number of parts into which a base is cut that is as
	// large as the room for output. Several parts then fit into the room.
	roomParts = 4
	// roomPieceMin is flushPieceMin for so little room, in bytes: about a block of the
	// disk.
	roomPieceMin = 4 << 10
)

// FlushCuts says where the tables of a flush end.
type FlushCuts struct {
	// Splits are keys, ascending. A table ends at a split if it has SplitMin bytes. It
	// also ends at TableSize bytes.
	Splits              [][]byte
	TableSize, SplitMin int64
}

// CutsOfFlush returns how a flush of flushBytes into v cuts its tables.
//
// All runs must be cut in the same places, so that level 0 can be emptied slice by
// slice. The places are where tables of the base begin. If those are too many for the
// flush, the hash of the key selects every second, fourth and so on of them. The
// selection is stable, so that runs share cuts while the base changes. With an empty
// base the tables are small enough to be slices later.
//
// If the room is not much larger than the base, or smaller, the pieces are smaller, so
// that each can be merged in that room.
func CutsOfFlush(v *manifest.Version, s Shape, flushBytes int64) FlushCuts {
	s = s.withDefaults()
	var below []*manifest.Table
	for level := baseOf(v, targetsOf(v, s)); level <= last && len(below) == 0; level++ {
		below = v.Levels[level]
	}
	if len(below) == 0 {
		return FlushCuts{TableSize: max(flushPieceMin, min(s.TableSize, flushBytes/8)), SplitMin: flushSplitMin}
	}
	cuts := FlushCuts{TableSize: s.TableSize, SplitMin: flushSplitMin}
	pieces := max(1, uint64(flushBytes/flushPieceMin))
	if s.OutputMax > 0 {
		enough := uint64(float64(roomParts*bytesOf(below)) / float64(s.OutputMax))
		if enough = min(enough, uint64(flushBytes/roomPieceMin)); enough > pieces {
			pieces = enough
			cuts.SplitMin = min(cuts.SplitMin, flushBytes/int64(4*pieces))
		}
	}
	skip := uint64(0)
	if n := uint64(len(below)); n > pieces {
		skip = 1<<bits.Len64((n-1)/pieces) - 1
	}
	for _, t := range below[1:] {
		if base.Hash(t.Smallest, 0)&skip == 0 {
			cuts.Splits = append(cuts.Splits, t.Smallest)
		}
	}
	return cuts
}
