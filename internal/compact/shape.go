package compact

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A Shape says what the tree should look like, and what time it is.
type Shape struct {
	// BaseSizeMin is the size in bytes below which a level above the last is
	// not worth having, and to which level 0 may grow: about 8 memtables.
	// Default: 512 MiB.
	BaseSizeMin int64
	// TableSize is the size in bytes of a full table. Default: 32 MiB.
	TableSize int64
	// ValuesMin is how many bytes of values level 0 may refer to in any case.
	// Beyond that it may refer to a sixteenth of all, since what is garbage among
	// the rest is only known when level 0 has met it. Default: 64 MiB.
	ValuesMin int64
	// Replacing is what part of the values of level 0 is taken to replace others.
	// Where it is large, level 0 may refer to an eighth of ValuesMin in any case.
	Replacing float64
	// RunsMax is how many runs of level 0 may hold one key. Default: 12.
	RunsMax int
	// InputMax bounds the bytes of the inputs of one plan, where something
	// smaller can be done at all. Default: 256 MiB.
	InputMax int64
	// OutputMax bounds the bytes that a merge of tables is expected to write:
	// there is no room for more. 0 is no bound. One whose inputs come to no more
	// needs no expectation. Of others Useless says that it is known to be wrong; nil
	// knows none.
	OutputMax int64
	Useless   func(plan *Plan) bool
	// DeletionAgeMs is how old deletions may grow before they are pushed to
	// the bottom. Default: a day.
	DeletionAgeMs uint64

	// Versions is Rules.Versions. Default: 1.
	Versions int
	// Damaged are the tables that cannot be read. What needs to read one is not
	// picked, so that the others are worked on.
	Damaged map[base.FileNum]bool
	// BadValues has the value files that cannot be read, by the numbers in their
	// names. Their values stay where they are.
	BadValues map[base.FileNum]error

	// Idle says that nobody is waiting for the disk or the processors.
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

// targets are the sizes in bytes to which levels may grow. Levels above base
// should be empty.
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

// baseOf returns the level to which level 0 of v goes: that of the targets, or
// a higher one that is not empty yet, because what is newer must not go below
// what is older.
func baseOf(v *manifest.Version, t targets) int {
	for level := 1; level < t.base; level++ {
		if len(v.Levels[level]) > 0 {
			return level
		}
	}
	return t.base
}

// Debt returns how many bytes must be written until level 0 and all levels are
// back within their sizes, and value files are not too many: what writers are
// slowed for. What is stuck over a damaged table is nobody's debt.
func Debt(v *manifest.Version, s Shape) int64 {
	p := newPicker(v, s)
	debt := int64(0)
	level0 := p.free(0)
	if over := level0 - p.s.BaseSizeMin; over > 0 {
		// Emptying level 0 rewrites the base once.
		debt += over + int64(float64(over)*float64(v.Bytes(p.base))/float64(level0))
	}
	for level := 1; level < last; level++ {
		if over := p.free(level) - p.target.bytes[level]; over > 0 {
			debt += over * (fanout + 1) / 2
		}
	}
	return debt + p.joinDebt()
}
