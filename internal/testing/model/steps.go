package model

import (
	"fmt"
	"slices"
)

// A Step is one operand of a Tail, or a renewal.
type Step struct {
	// NowMs is the time of the transaction, and then that of its commit.
	NowMs uint64
	// Renew says that the step only sets ExpiresAt.
	Renew     bool
	ExpiresAt uint64
	Operand   string
	Tail      Tail
}

// Steps are what one transaction merges into a key, the oldest first.
type Steps []Step

// over returns what the steps make of the newest older version of the key.
func (s *Steps) over(v Version) Version {
	for _, step := range *s {
		present := v.Live(step.NowMs)
		switch {
		case step.Renew && present:
			v.ExpiresAt = step.ExpiresAt
		case step.Renew:
		case present:
			v.Value = step.Tail.Join(v.Value, step.Operand)
		default:
			v = Version{Value: step.Tail.Join("", step.Operand)}
		}
	}
	if v.Deleted {
		v = Version{Deleted: true}
	}
	return v
}

// at returns the steps at a later time.
func (s *Steps) at(ms uint64) *Steps {
	later := slices.Clone(*s)
	for i := range later {
		later[i].NowMs = max(later[i].NowMs, ms)
	}
	return &later
}

// older returns what a transaction's steps for key lie on, in the snapshot seq.
func (m *Map) older(key string, seq uint64) Version {
	v, ok := m.Newest(key, seq)
	if !ok {
		return Version{Deleted: true}
	}
	v.ByRange = false
	return v
}

// whole returns the version that an own write shows: steps lie on the snapshot.
func (t *Txn) whole(key string, v Version) Version {
	if v.Steps != nil {
		v = v.Steps.over(t.m.older(key, t.Seq))
		v.Seq = 0
	}
	return v
}

// Step adds a step to what the transaction has written for key.
func (t *Txn) Step(key string, s Step) {
	s.NowMs = t.NowMs
	v, own := t.pending[key]
	switch {
	case own && v.Steps != nil:
		steps := slices.Clone(*v.Steps)
		if last := &steps[len(steps)-1]; s.Renew && last.Renew {
			// The last renewal counts, unless the one before it ended the value at once.
			if last.ExpiresAt == 0 || last.ExpiresAt > s.NowMs {
				last.ExpiresAt = s.ExpiresAt
			}
		} else {
			steps = append(steps, s)
		}
		v.Steps = &steps
	case own:
		if v.ExpiresAt != 0 && v.Live(s.NowMs) && (t.lapse == 0 || v.ExpiresAt < t.lapse) {
			t.lapse = v.ExpiresAt
		}
		v = (&Steps{s}).over(v)
	case holds(t.deleted, key):
		if s.Renew {
			return
		}
		v = (&Steps{s}).over(Version{Deleted: true})
	default:
		v = Version{Steps: &Steps{s}}
	}
	t.Write(key, v)
}

// Lapsed reports whether a value has expired at a time that the transaction had set itself
// before it merged into the value or renewed it. The commit is then a conflict: at that time,
// the step finds no value.
func (t *Txn) Lapsed(ms uint64) bool { return t.lapse != 0 && t.lapse <= ms }

// A Tail is a merge function: it appends operands, and keeps the last Keep bytes.
type Tail struct{ Keep int }

// Name returns the name of the function.
func (t Tail) Name() string { return fmt.Sprintf("tail %d", t.Keep) }

// Join appends an operand to a value, and keeps the end.
func (t Tail) Join(value, operand string) string {
	value += operand
	return value[max(0, len(value)-t.Keep):]
}

// Merge merges operands into a value.
func (t Tail) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	value := string(existing)
	for _, o := range operands {
		value = t.Join(value, string(o))
	}
	return append(dst, value...), nil
}

// A CombiningTail is a Tail that combines operands.
type CombiningTail struct{ Tail }

// Combine makes one operand of several.
func (t CombiningTail) Combine(dst, key []byte, operands [][]byte) ([]byte, error) {
	return t.Merge(dst, key, nil, operands)
}
