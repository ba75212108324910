package compact

import "github.com/stoatdb/stoat/internal/manifest"

// level0Part is a divisor: level 0 may hold 1/level0Part of the bytes of the last level, as
// long as there is no level between them. The more level 0 holds, the less of the last
// level a merge rewrites for each of its bytes. But what it replaces is garbage until then.
const level0Part = 3

// directMax returns the maximum size of a last level without levels above it, in bytes. A
// merge of small runs then cuts its output wherever a table of the last level begins. So a
// slice consists of one such table and what lies over it.
func (s *Shape) directMax() int64 { return max(1, s.BaseSizeMin/flushPieceMin) * s.TableSize }

// targets are the maximum sizes of the levels in bytes. Levels above base should be empty.
type targets struct {
	base  int
	bytes [manifest.Levels]int64
	// tolerated is the size of level 0 beyond which commits are slowed down. It is the
	// target, except when the last level has outgrown directMax: then the target falls
	// at once, and level 0 shrinks while commits go on.
	tolerated int64
}

// targetsOf derives the targets from the size of the last level.
func targetsOf(v *manifest.Version, s Shape) targets {
	size, direct := v.Bytes(last), s.directMax()
	t := targets{base: last, tolerated: max(s.BaseSizeMin, min(size, direct)/level0Part)}
	t.bytes[0], t.bytes[last] = s.BaseSizeMin, size
	if size <= direct {
		t.bytes[0] = t.tolerated
		return t
	}
	for level := last - 1; level > 0; level-- {
		if size /= fanout; size < s.BaseSizeMin {
			break
		}
		t.base, t.bytes[level] = level, size
	}
	return t
}

// baseOf returns the level into which level 0 of v is compacted. It is the base of the
// targets, or a higher level that is not empty. Newer versions must not go below older
// ones.
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
	level0 := p.v.Bytes(0)
	if over := level0 - p.target.tolerated; over > 0 {
		// Emptying level 0 rewrites the base once.
		debt += over + int64(float64(over)*float64(p.v.Bytes(p.base))/float64(level0))
	}
	for level := 1; level < last; level++ {
		if over := p.v.Bytes(level) - p.target.bytes[level]; over > 0 {
			debt += over * (fanout + 1) / 2
		}
	}
	return debt + p.joinDebt()
}
