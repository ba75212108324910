package ingest

import "iter"

// WithoutErrors returns the pairs of a sequence as what entry makes of them, without an
// error. It returns nil for nil.
func WithoutErrors[E any](pairs iter.Seq2[[]byte, []byte], entry func(k, v []byte) E) iter.Seq2[E, error] {
	if pairs == nil {
		return nil
	}
	return func(yield func(E, error) bool) {
		for k, v := range pairs {
			if !yield(entry(k, v), nil) {
				return
			}
		}
	}
}

// Mapped returns the elements of a sequence as what change makes of them. change must not
// keep its argument.
func Mapped[A, B any](elements iter.Seq2[A, error], change func(*A) B) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		var one A // one for all: change lets it escape to the heap
		for e, err := range elements {
			one = e
			if !yield(change(&one), err) {
				return
			}
		}
	}
}
