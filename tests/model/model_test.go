package model

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

func TestModel_DropsGiveSpaceBack(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range uint64(2) {
		testkit.Must(t, RunDrops(seed+i))
	}
}

func TestModel_QueuesAreReadThroughTheirDeadKeys(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range uint64(dose.Short(4, 20)) {
		testkit.Must(t, RunQueues(seed+i))
	}
}

// TestModel runs random operations on databases with random options and on
// the model, and demands the same answers. A run that fails is shortened
// until every operation that is left is needed, and told as a list.
func TestModel(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	calls := int64(dose.Size(t, dose.Ops, 10_000, 100_000))
	dose.Reproduce(t, "model")
	var next, done atomic.Int64
	var tally testkit.WorkTally
	var failed testkit.FirstError
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Get() == nil && done.Load() < calls {
				w, err := checkLife(seed + uint64(next.Add(1)-1))
				done.Add(w.calls)
				tally.Add(w.Tally)
				failed.Set(err)
			}
		})
	}
	workers.Wait()
	if err := failed.Get(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls in %d lives: %v", done.Load(), next.Load(), &tally)
	wanted := []testkit.Work{testkit.Flushes, testkit.Merges}
	if calls >= callsMin {
		wanted = testkit.AllWork
	}
	if err := tally.Lacks(wanted...); err != nil {
		t.Error(err)
	}
}
