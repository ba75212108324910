package schedules

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestSchedules lets writers, deleters, readers, iterators, the flusher, the
// compactor, collections, checkpoints and crashes take turns in the middle of
// what they do. The order follows from the seed alone. All that they see must agree
// with a model with versions.
func TestSchedules(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	n := dose.Size(t, dose.Schedules, 150, 300)
	dose.Reproduce(t, "schedules")
	var mu sync.Mutex
	var did scheduleCounts
	testkit.Must(t, testkit.InParallel(n, func(i int) error {
		counts, err := runSchedule(seed + uint64(i))
		mu.Lock()
		did.add(counts)
		mu.Unlock()
		if err != nil {
			return fmt.Errorf("%w\n  this schedule alone: make schedules SEED=%d SCHEDULES=1", err, seed+uint64(i))
		}
		return nil
	}))
	t.Logf("%d schedules: %+v", n, did)
	if n == 1 {
		return // a repeated failure need not come to everything
	}
	if did.merges == 0 || did.moves == 0 || did.cuts == 0 || did.collections == 0 || did.gatherings == 0 || did.checkpoints == 0 || did.conflicts == 0 ||
		did.asides == 0 || did.dropped == 0 || did.forgotten == 0 || did.settled == 0 || did.doomed == 0 {
		t.Error("the schedules do not come to everything")
	}
}

// TestSchedules_OneSeedIsOneOrder plays schedules twice and demands the same turns.
func TestSchedules_OneSeedIsOneOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		var stories [2]string
		for i := range stories {
			w := newScheduleWorld(nil, 1)
			if err := w.playSeed(seed); err != nil {
				t.Fatal(err)
			}
			stories[i] = w.String()
		}
		if stories[0] != stories[1] {
			t.Fatalf("seed %d:\n%s\nand then:\n%s", seed, stories[0], stories[1])
		}
	}
}
