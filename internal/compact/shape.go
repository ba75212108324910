package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Shape describes the desired tree and the present moment.
type Shape struct {
	// BaseSizeMin is the size in bytes below which a level above the last is not worth
	// having. It is also the limit of level 0: about 8 memtables. Default: 512 MiB.
	BaseSizeMin int64
	// TableSize is the size in bytes of a full table. Default: 32 MiB.
	TableSize int64
	// ValuesMin is the number of bytes of values that level 0 may always refer to. Above
	// it, level 0 may refer to a sixteenth of all values: what it replaced below is
	// known to be garbage only after compaction. Default: 64 MiB.
	ValuesMin int64
	// Replacing is the estimated fraction of the values of level 0 that replace others.
	// If it is large, the bound falls to an eighth of ValuesMin.
	Replacing float64
	// RunsMax is the number of runs of level 0 that may hold one key. Default: 12.
	RunsMax int
	// InputMax bounds the bytes of the inputs of one plan, unless no smaller plan is
	// possible. Default: 256 MiB.
	InputMax int64
	// OutputMax is the room in bytes for the output of a merge; 0 means no bound. A plan
	// whose inputs are no larger always fits. For other plans the picker estimates the
	// output. Useless reports that the estimate for a plan is known to be too low; it
	// may be nil.
	OutputMax int64
	Useless   func(plan *Plan) bool
	// DeletionAgeMs is the maximum age of tombstones in milliseconds. Older ones are
	// pushed to the bottom. Default: a day.
	DeletionAgeMs uint64

	// Versions is Rules.Versions. Default: 1.
	Versions int
	// Damaged are the tables that cannot be read. No plan reads them, so that work on the
	// others continues.
	Damaged map[base.FileNum]bool
	// BadValues holds the value files that cannot be read, by the numbers in their names.
	// Their values stay where they are.
	BadValues map[base.FileNum]error

	// Idle says that no foreground work needs the disk or the processors.
	Idle bool
	// NowMs is the time in Unix milliseconds, as in Rules.
	NowMs uint64
	// OldestSnapshot is the first of Rules.Snapshots.
	OldestSnapshot base.SeqNum
}

const (
	fanout = 10
	last   = manifest.Levels - 1
)

func (s Shape) withDefaults() Shape {
	for _, d := range []struct {
		field *int64
		value int64
	}{{&s.BaseSizeMin, 512 << 20}, {&s.TableSize, 32 << 20}, {&s.InputMax, 256 << 20}, {&s.ValuesMin, 64 << 20}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if s.RunsMax <= 0 {
		s.RunsMax = 12
	}
	s.Versions = max(s.Versions, 1)
	if s.DeletionAgeMs == 0 {
		s.DeletionAgeMs = 24 * 60 * 60 * 1000
	}
	return s
}

// targets are the maximum sizes of the levels in bytes. Levels above base should be empty.
type targets struct {
	base  int
	bytes [manifest.Levels]int64
}

// targetsOf derives the targets from the size of the last level.
func targetsOf(v *manifest.Version, s Shape) targets {
	t := targets{base: last}
	size := v.Bytes(last)
	t.bytes[last] = size
	for level := last - 1; level > 0; level-- {
		if size /= fanout; size < s.BaseSizeMin {
			break
		}
		t.base, t.bytes[level] = level, size
	}
	return t
}

// baseOf returns the level into which level 0 of v is compacted: that of the targets, or a
// higher one that is not empty, because newer versions must not go below older ones.
func baseOf(v *manifest.Version, t targets) int {
	for level := 1; level < t.base; level++ {
		if len(v.Levels[level]) > 0 {
			return level
		}
	}
	return t.base
}

// Debt returns how many bytes must be written until level 0 and all levels are within their
// limits and value files are not too many. Backpressure depends on it. Tables stuck over
// damage do not count.
func Debt(v *manifest.Version, s Shape) int64 {
	p := newPicker(v, s)
	debt := int64(0)
	level0 := p.movableBytes(0)
	if over := level0 - p.s.BaseSizeMin; over > 0 {
		// Emptying level 0 rewrites the base once.
		debt += over + int64(float64(over)*float64(v.Bytes(p.base))/float64(level0))
	}
	for level := 1; level < last; level++ {
		if over := p.movableBytes(level) - p.target.bytes[level]; over > 0 {
			debt += over * (fanout + 1) / 2
		}
	}
	return debt + p.joinDebt()
}
