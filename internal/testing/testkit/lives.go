package testkit

import (
	"sync"
	"testing"
)

// Lives plays n lives with the seeds from seed on, as many at a time as go test allows. It
// returns when all have ended. add gets what each came to, one after the other.
func Lives[W any](t *testing.T, seed uint64, n int, play func(seed uint64) (W, error), add func(W)) {
	t.Helper()
	var mu sync.Mutex
	t.Run("lives", func(t *testing.T) {
		for i := range uint64(n) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				w, err := play(seed + i)
				if err != nil {
					t.Errorf("seed %d: %v", seed+i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				add(w)
			})
		}
	})
}
