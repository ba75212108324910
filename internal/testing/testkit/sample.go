package testkit

import "math/rand/v2"

// A Sample keeps up to Max of the values that it is offered, each with the same chance.
type Sample[T any] struct {
	Max  int
	Rand *rand.Rand
	Seen int // how many values were offered
	Kept []T
}

// Slot returns where the next value belongs, or nil if the sample does not keep it.
func (s *Sample[T]) Slot() *T {
	s.Seen++
	if len(s.Kept) < s.Max {
		s.Kept = append(s.Kept, *new(T))
		return &s.Kept[len(s.Kept)-1]
	}
	if i := s.Rand.IntN(s.Seen); i < s.Max {
		return &s.Kept[i]
	}
	return nil
}
