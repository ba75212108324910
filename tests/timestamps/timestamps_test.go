package timestamps

import (
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

func TestTimestamps_ReadsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var all work
	seed := dose.Seed(t)
	for i := range uint64(20) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			w, err := RunLife(seed+i, 300)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all.add(w)
		})
	}
	t.Cleanup(func() {
		t.Logf("%+v", all)
		if all.late == 0 || all.dropped == 0 || all.conflicts == 0 || all.cuts == 0 {
			t.Errorf("the lives came to too little: %+v", all)
		}
	})
}

func TestTimestamps_ADeletionStaysWhileAnOlderVersionIsInTheMemtable(t *testing.T) {
	t.Parallel()
	if err := RunBuried(); err != nil {
		t.Error(err)
	}
}

func TestTimestamps_APowerCutTakesNoVersionAndNoDiscardPoint(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range uint64(4) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			if n, err := RunCrashes(seed+i, 60); err != nil || n < copiesMax {
				t.Errorf("%d copies: %v", n, err)
			}
		})
	}
}
