package compact

import (
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// flushPieceMin is how much of a flush a table should get: a smaller one is
// not worth its sync.
const flushPieceMin = 1 << 20

// flushSplitMin is how many bytes a table of a flush has at least that ends at a
// split. Where keys are few, a table may go on beyond a split, but not for the
// accident of few keys between two.
const flushSplitMin = flushPieceMin / 4

const (
	// roomParts is into how many parts a base is cut at least that is as large as
	// the room for what a merge writes, so that several parts fit in it.
	roomParts = 4
	// roomPieceMin is flushPieceMin where there is so little room: about a block of
	// the disk.
	roomPieceMin = 4 << 10
)

// FlushCuts says where the tables of a flush end.
type FlushCuts struct {
	// Splits are keys at which they end, ascending, when they have SplitMin bytes;
	// they also end at TableSize bytes.
	Splits              [][]byte
	TableSize, SplitMin int64
}

// CutsOfFlush says how a flush of so many bytes into v cuts its tables.
//
// Tables of different runs are cut in the same places, or level 0 could not be
// emptied slice by slice. The places are where tables of the base begin. When
// those are too many for the flush, the hash of the key decides which ones are
// used: every second, fourth and so on of them, and always the same ones, so
// that the cuts of a run stay cuts of others while the base changes. An empty
// base gets tables small enough to be slices later.
//
// Where there is not much more room than the base takes, or less, the pieces are
// smaller, so that each of them can be merged in that room.
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
