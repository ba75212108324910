package feed

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// TestFeeds plays lives with power cuts and restarts.
func TestFeeds(t *testing.T) {
	t.Parallel()
	seed, lives := dose.Seed(t), dose.Size(t, dose.Lives, testkit.Raced(10, 8), 30)
	dose.Reproduce(t, "feeds")
	var all Work
	testkit.Lives(t, seed, lives, func(seed uint64) (Work, error) { return RunLife(seed, 600) }, all.Add)
	t.Logf("%+v", all)
	if all.Cuts == 0 || all.Taken == 0 || all.Restarts == 0 || all.Gone == 0 || all.Large == 0 || all.Filtered == 0 || all.Drops == 0 {
		t.Errorf("the lives came to too little: %+v", all)
	}
}

// TestFeedCrashes crashes copies of the disks of lives.
func TestFeedCrashes(t *testing.T) {
	t.Parallel()
	seed, states := dose.Seed(t), dose.Size(t, dose.States, testkit.Raced(200, 60), 1000)
	dose.Reproduce(t, "crash-feeds")
	lives := (states + copiesMax - 1) / copiesMax
	var all Work
	testkit.Lives(t, seed, lives, func(seed uint64) (Work, error) { return RunCrashes(seed, min(states, copiesMax)) }, all.Add)
	t.Logf("%+v", all)
	if all.States < states || all.Cuts == 0 {
		t.Errorf("the lives came to too little: %+v", all)
	}
}

func TestFeeds_OfFollowers(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	var all Work
	testkit.Lives(t, seed, dose.Short(3, 10), func(seed uint64) (Work, error) { return RunFollowed(seed, 600) }, all.Add)
	t.Logf("%+v", all)
	if all.Taken == 0 || all.Restarts == 0 || all.Gone == 0 || all.Large == 0 || all.Drops == 0 {
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
