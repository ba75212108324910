// Package gaps remembers ranges of keys in which nothing lives, so that iterators need
// not pass the same tombstones again and again.
//
// A reader that passed many dead keys in a row adds a gap. At the version that it read, no
// key of the range had a live value. That is what a range deletion at this version would
// leave behind. So later readers treat the gap like a range deletion: it hides the entries
// up to its version, and newer ones show through. A write into the range needs not know of
// the gap, and a gap never becomes wrong.
//
//	key           a    b    c    d        versions 4 to 9 of [a, d): nothing lives
//	written at    1    2    3    5
//	deleted at    2    3    4             a reader at 9 shows d and adds the gap
//	written at         12                 a reader at 15 skips a and c, and shows b and d
//
// A gap lies in memory only. Any number of goroutines use an Index.
package gaps

import (
	"bytes"
	"math"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Gap says of nested ranges that nothing lives in them. It is immutable.
type Gap struct {
	// AsOf is the newest version for which the gap holds. All entries of the ranges up
	// to this version are dead.
	AsOf base.SeqNum
	// steps are the ranges, each within the next one. The widest is last. A queue grows
	// its gap at one end, and readers of earlier versions need the earlier ranges.
	steps []Step
	// used is the time of the last use, by the clock of the index.
	used atomic.Uint64
}

// A Step is one range of a gap. It covers all versions from From to the AsOf of its gap. In
// them, no key from Lo, inclusive, to Hi, exclusive, has a live value at the time Time or
// later.
type Step struct {
	Lo, Hi []byte // Hi may be nil, which is the end of all keys
	From   base.SeqNum
	Time   uint64 // milliseconds of Unix time, or 0
}

// stepsMax is how many ranges a gap has at most.
const stepsMax = 8

// Contains reports whether key lies in the range.
func (s *Step) Contains(key []byte) bool {
	return bytes.Compare(s.Lo, key) <= 0 && before(key, s.Hi)
}

// before reports whether key lies before the bound hi.
func before(key, hi []byte) bool { return hi == nil || bytes.Compare(key, hi) < 0 }

// beyond reports whether the bound a lies after the bound b.
func beyond(a, b []byte) bool { return b != nil && (a == nil || bytes.Compare(a, b) > 0) }

// widest returns the last step, which contains all others.
func (g *Gap) widest() *Step { return &g.steps[len(g.steps)-1] }

// Widest reports whether s is the widest range of g.
func (g *Gap) Widest(s *Step) bool { return s == g.widest() }

// step returns the widest range around key that holds for a reader, or nil.
func (g *Gap) step(key []byte, r Reader) *Step {
	for i := len(g.steps) - 1; i >= 0; i-- {
		s := &g.steps[i]
		if !s.Contains(key) {
			return nil
		}
		if s.From > r.At && !mutant.On(mutant.GapTooNew) {
			continue
		}
		if s.Time == 0 || s.Time <= r.Clock.NowMs() || mutant.On(mutant.GapTooEarly) {
			return s
		}
	}
	return nil
}

// extended returns g with one more range, which contains the others and holds for no
// earlier reader than they, as of a later version.
func (g *Gap) extended(s Step, asOf base.SeqNum) *Gap {
	last := *g.widest()
	steps := slices.Clone(g.steps)
	if s.From == last.From && s.Time == last.Time {
		steps = steps[:len(steps)-1]
	} else if len(steps) == stepsMax {
		i := leastMissed(steps, s.From)
		steps = slices.Delete(steps, i, i+1)
	}
	if bytes.Equal(s.Lo, last.Lo) {
		s.Lo = last.Lo // one copy of the key is enough
	}
	if s.Hi != nil && bytes.Equal(s.Hi, last.Hi) {
		s.Hi = last.Hi
	}
	return &Gap{AsOf: asOf, steps: append(steps, s)}
}

// leastMissed returns the index of the step that readers miss least once there is one from
// newest on. So the distances between steps grow with their age. The first step stays.
func leastMissed(steps []Step, newest base.SeqNum) int {
	drop, least := 0, math.Inf(1)
	for i := 1; i+1 < len(steps); i++ {
		older := steps[i-1].From
		if d := float64(steps[i+1].From-older) / float64(newest-older+1); d < least {
			drop, least = i, d
		}
	}
	return drop
}

// below returns what g says of the keys before key, or nil.
func (g *Gap) below(key []byte) *Gap {
	return g.cut(func(s *Step) bool {
		if beyond(s.Hi, key) {
			s.Hi = key
		}
		return bytes.Compare(s.Lo, key) < 0
	})
}

// above returns what g says of the keys from key on, or nil. With nil there are none.
func (g *Gap) above(key []byte) *Gap {
	if key == nil {
		return nil
	}
	return g.cut(func(s *Step) bool {
		if bytes.Compare(s.Lo, key) < 0 {
			s.Lo = key
		}
		return before(key, s.Hi)
	})
}

// cut returns g with the ranges that keep shortens, without those for which it reports
// false.
func (g *Gap) cut(keep func(s *Step) bool) *Gap {
	part := &Gap{AsOf: g.AsOf}
	for _, s := range g.steps {
		if keep(&s) {
			part.steps = append(part.steps, s)
		}
	}
	if len(part.steps) == 0 {
		return nil
	}
	part.used.Store(g.used.Load())
	return part
}

// bytes returns about how much memory g takes, in bytes.
func (g *Gap) bytes() int {
	n := 64
	for i := range g.steps {
		n += 64 + len(g.steps[i].Lo) + len(g.steps[i].Hi)
	}
	return n
}
