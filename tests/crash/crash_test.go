package crash

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestCrash cuts the power at the boundaries of what 35 and more workloads do
// to the disk, in every way that memfs.FS knows, and opens what is left: it
// must be the state after some commit, none that was acknowledged as durable
// may be missing, and the database must go on from there.
func TestCrash(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, testkit.Raced(120, 25), 1_500)
	dose.Reproduce(t, "crash")
	eachCrashState(t, seed, states, 0, CheckOnce)
}

// TestCrashTwice cuts the power again while the database is being opened
// after a crash, at the boundaries of what Open does to the disk.
func TestCrashTwice(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	states := dose.Size(t, dose.States, testkit.Raced(12, 4), 300)
	dose.Reproduce(t, "crash-twice")
	eachCrashState(t, seed+1_000_000, states, secondCrashes, CheckTwice)
}

// eachCrashState runs all workloads until there were so many states in all,
// a check counting for perCheck of them, or one if that is 0.
func eachCrashState(t *testing.T, seed uint64, states, perCheck int, check Check) {
	checks := checksOfEach(states, max(1, perCheck), len(allWorkloads))
	rounds := (checks + statesPerRun - 1) / statesPerRun
	var next atomic.Int64
	var failed testkit.FirstError
	var done testkit.WorkTally
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Get() == nil {
				job := int(next.Add(1)) - 1
				if job >= rounds*len(allWorkloads) {
					return
				}
				w := allWorkloads[job%len(allWorkloads)]
				round := seed + uint64(job/len(allWorkloads))
				if err := checkRun(w, round, min(checks, statesPerRun), &done, check); err != nil {
					failed.Set(fmt.Errorf("workload %q, seed %d: %w", w.name, round, err))
				}
			}
		})
	}
	workers.Wait()
	if err := failed.Get(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d runs of %d workloads: %v", rounds*len(allWorkloads), len(allWorkloads), &done)
	if err := done.Lacks(testkit.AllWork...); err != nil {
		t.Error(err)
	}
}

// checksOfEach is how many checks of each workload make at least so many states,
// a check counting for perCheck of them.
func checksOfEach(states, perCheck, workloads int) int {
	return max(1, (states+perCheck*workloads-1)/(perCheck*workloads))
}

func TestCrashDose_VisitsNoFewerStatesThanAsked(t *testing.T) {
	t.Parallel()
	for _, workloads := range []int{1, 35, 40, 41} {
		for _, states := range []int{1, 39, 40, 41, 300, 500, 2_000, 20_000} {
			for _, perCheck := range []int{1, secondCrashes} {
				n := checksOfEach(states, perCheck, workloads) * perCheck * workloads
				if n < states || n >= states+perCheck*workloads {
					t.Errorf("%d states of %d workloads, %d a check: %d are visited", states, workloads, perCheck, n)
				}
			}
		}
	}
}

// TestCrashWorkloads_Differ holds the list to its promise.
func TestCrashWorkloads_Differ(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, w := range allWorkloads {
		names[strings.ToLower(w.name)] = true
	}
	if len(names) != len(allWorkloads) || len(names) < 35 {
		t.Errorf("%d names for %d workloads, want 35 or more", len(names), len(allWorkloads))
	}
}
