package timestamps

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// Operations of one life, and of one life with power cuts at its boundaries. There is one
// of the latter for each five of the former.
const (
	lifeOps  = 300
	crashOps = 60
)

// livesMin is how many lives do all kinds of work.
var livesMin = testkit.Raced(20, 3)

// lives returns the seed and how many lives the dose comes to.
func lives(t *testing.T) (seed uint64, n int) {
	t.Helper()
	seed = dose.Seed(t)
	few := livesMin * lifeOps
	ops := dose.Size(t, dose.Ops, few, few)
	dose.Reproduce(t, "timestamps")
	return seed, (ops + lifeOps - 1) / lifeOps
}

func TestTimestamps_ReadsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	var all work
	seed, n := lives(t)
	testkit.Lives(t, seed, n, func(seed uint64) (work, error) { return RunLife(seed, lifeOps) }, all.add)
	t.Logf("%+v", all)
	if n >= livesMin && (all.late == 0 || all.dropped == 0 || all.conflicts == 0 || all.ingests == 0 || all.cuts == 0) {
		t.Errorf("the lives came to too little: %+v", all)
	}
}

func TestTimestamps_ADeletionStaysWhileAnOlderVersionIsInTheMemtable(t *testing.T) {
	t.Parallel()
	if err := RunBuried(); err != nil {
		t.Error(err)
	}
}

func TestTimestamps_APowerCutTakesNoVersionAndNoDiscardPoint(t *testing.T) {
	t.Parallel()
	seed, n := lives(t)
	testkit.Lives(t, seed, (n+4)/5, func(seed uint64) (copies int, err error) { return RunCrashes(seed, crashOps) }, func(copies int) {
		if copies < copiesMax {
			t.Errorf("a life has only %d copies", copies)
		}
	})
}
