package timestamps

import (
	"sync"
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

// lives returns the seed and how many lives the dose comes to.
func lives(t *testing.T) (seed uint64, n int) {
	t.Helper()
	seed = dose.Seed(t)
	ops := dose.Size(t, dose.Ops, 20*lifeOps, 20*lifeOps)
	dose.Reproduce(t, "timestamps")
	return seed, (ops + lifeOps - 1) / lifeOps
}

// atOnce runs n tests, as many at a time as go test allows.
func atOnce(t *testing.T, n int, do func(t *testing.T, i uint64)) {
	t.Helper()
	for i := range uint64(n) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			do(t, i)
		})
	}
}

func TestTimestamps_ReadsAreThoseOfTheModel(t *testing.T) {
	testkit.SkipUnderRace(t)
	t.Parallel()
	var mu sync.Mutex
	var all work
	seed, n := lives(t)
	atOnce(t, n, func(t *testing.T, i uint64) {
		w, err := RunLife(seed+i, lifeOps)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all.add(w)
	})
	t.Cleanup(func() {
		t.Logf("%+v", all)
		if n >= 20 && (all.late == 0 || all.dropped == 0 || all.conflicts == 0 || all.cuts == 0) {
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
	testkit.SkipUnderRace(t)
	t.Parallel()
	seed, n := lives(t)
	atOnce(t, (n+4)/5, func(t *testing.T, i uint64) {
		if copies, err := RunCrashes(seed+i, crashOps); err != nil || copies < copiesMax {
			t.Errorf("%d copies: %v", copies, err)
		}
	})
}
