package feed

import (
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

// TestFeeds plays lives with power cuts and restarts.
func TestFeeds(t *testing.T) {
	t.Parallel()
	seed, lives := dose.Seed(t), dose.Size(t, dose.Lives, 10, 30)
	dose.Reproduce(t, "feeds")
	var mu sync.Mutex
	var all Work
	t.Run("lives", func(t *testing.T) {
		for i := range uint64(lives) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				w, err := RunLife(seed+i, 600)
				if err != nil {
					t.Errorf("seed %d: %v", seed+i, err)
				}
				mu.Lock()
				defer mu.Unlock()
				all.Add(w)
			})
		}
	})
	t.Logf("%+v", all)
	if all.Cuts == 0 || all.Taken == 0 || all.Restarts == 0 || all.Gone == 0 || all.Large == 0 {
		t.Errorf("the lives came to too little: %+v", all)
	}
}

func TestFeeds_BesideWriters(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range uint64(dose.Short(2, 6)) {
		if err := RunBeside(seed+i, 300); err != nil {
			t.Errorf("seed %d: %v", seed+i, err)
		}
	}
}
