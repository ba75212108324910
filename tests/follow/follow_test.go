package follow

import (
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// TestFollowers plays lives of writers and their followers.
func TestFollowers(t *testing.T) {
	t.Parallel()
	seed, lives := dose.Seed(t), dose.Size(t, dose.Lives, 4, 7)
	dose.Reproduce(t, "followers")
	var all Work
	testkit.Lives(t, seed, lives, func(seed uint64) (Work, error) { return RunLife(seed, 600) }, all.Add)
	t.Logf("%+v", all)
	if all.Cuts == 0 || all.Taken == 0 || all.Kills == 0 || all.Restarts == 0 || all.Ingests == 0 || all.Drops == 0 || all.Flushes == 0 {
		t.Errorf("the lives came to too little: %+v", all)
	}
}

func TestFollowers_BesideAWriter(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range uint64(dose.Short(1, 3)) {
		w, err := RunBeside(seed+i, 400, 2, memfs.New(), testkit.Dir)
		if err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
		wantBeside(t, w)
	}
}

// wantBeside demands that followers read, and that the writer flushed.
func wantBeside(t *testing.T, w Work) {
	t.Helper()
	t.Logf("%+v", w)
	if w.Reads == 0 || w.Flushes == 0 {
		t.Errorf("the life came to too little: %+v", w)
	}
}

func TestFollowers_BesideAWriterOnARealDisk(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	w, err := RunBeside(seed, dose.Short(100, 200), 2, vfs.OS(), t.TempDir())
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	wantBeside(t, w)
}

func TestFollowers_FindDamageOfTheLog(t *testing.T) {
	t.Parallel()
	seed, found := dose.Seed(t), 0
	for i := range uint64(dose.Short(5, 8)) {
		// The log of one life in twenty has nothing that can be damaged.
		//
		// In a bubble no second passes, after which an idle writer flushes: damage of what a
		// flush has freed harms nothing.
		synctest.Test(t, func(t *testing.T) {
			n, err := RunDamages(seed+i, 30)
			if err != nil {
				t.Fatalf("seed %d: %v", seed+i, err)
			}
			found += n
		})
	}
	t.Logf("%d damages were found", found)
	if found == 0 {
		t.Error("no damage was found")
	}
}

func TestFollowers_CheckBesideAWriterThatRecyclesTheLog(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	for i := range uint64(dose.Short(1, 6)) {
		if err := RunBusyCheck(seed + i); err != nil {
			t.Fatalf("seed %d: %v", seed+i, err)
		}
	}
}
