package compact

import (
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// flushPieceMin is how much of a flush a table should get: a smaller one is
// not worth its sync.
const flushPieceMin = 1 << 20

// FlushSplitMin is Job.SplitMin of a flush. Where keys are few, a table may
// go on beyond a split, but not for the accident of few keys between two.
const FlushSplitMin = flushPieceMin / 4

// FlushSplits says how a flush of so many bytes into v cuts its tables: at the
// splits, which are ascending, and where they come to tableSize bytes.
//
// Tables of different runs are cut in the same places, or level 0 could not be
// emptied slice by slice. The places are where tables of the base begin. When
// those are too many for the flush, the hash of the key decides which ones are
// used: every second, fourth and so on of them, and always the same ones, so
// that the cuts of a run stay cuts of others while the base changes. An empty
// base gets tables small enough to be slices later.
func FlushSplits(v *manifest.Version, s Shape, flushBytes int64) (splits [][]byte, tableSize int64) {
	s = s.withDefaults()
	var below []*manifest.Table
	for level := baseOf(v, targetsOf(v, s)); level <= last && len(below) == 0; level++ {
		below = v.Levels[level]
	}
	if len(below) == 0 {
		return nil, max(flushPieceMin, min(s.TableSize, flushBytes/8))
	}
	pieces := max(1, uint64(flushBytes/flushPieceMin))
	skip := uint64(0)
	if n := uint64(len(below)); n > pieces {
		skip = 1<<bits.Len64((n-1)/pieces) - 1
	}
	for _, t := range below[1:] {
		if base.Hash(t.Smallest, 0)&skip == 0 {
			splits = append(splits, t.Smallest)
		}
	}
	return splits, s.TableSize
}
