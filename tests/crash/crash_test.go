package crash

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestCrash cuts the power while workloads use the disk, in every way that memfs knows. What
// is left must open as the state after some commit. No commit that was acknowledged as durable
// may be missing. The database must go on from there.
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
	var done testkit.WorkTally
	testkit.Must(t, testkit.InParallel(rounds*len(allWorkloads), func(job int) error {
		w := allWorkloads[job%len(allWorkloads)]
		round := seed + uint64(job/len(allWorkloads))
		if err := checkRun(w, round, min(checks, statesPerRun), &done, check); err != nil {
			return fmt.Errorf("workload %q, seed %d: %w", w.name, round, err)
		}
		return nil
	}))
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
