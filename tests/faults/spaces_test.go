package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	modeltest "github.com/stoatdb/stoat/tests/model"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// spacesSteps is the number of operations on keyspaces in one life.
const spacesSteps = 40

// spacesOptions are the options of a database on a file system.
func spacesOptions(fs vfs.FS) *stoat.Options {
	return &stoat.Options{FS: fs, MemtableSize: testkit.SmallMemtable}
}

// liveInSpaces runs operations on keyspaces until one fails. It returns the state
// before that, and the state that the failed operation may have left.
func liveInSpaces(fs vfs.FS, seed uint64) (before, after modeltest.SpacesState, err error) {
	before = modeltest.SpacesState{"": {}}
	db, err := stoat.Open(testkit.Dir, spacesOptions(fs))
	if err != nil {
		return before, before, faultOf(err)
	}
	rng := rand.New(rand.NewPCG(seed, 0x5bace))
	after = before
	for range spacesSteps {
		next, op := before.Step(rng)
		after = next
		if err = op(db); err != nil {
			break
		}
		before = next
	}
	if err == nil {
		after = before
	}
	if closing := faultOf(db.Close()); closing != nil {
		return before, after, closing
	}
	return before, after, faultOf(err)
}

// checkSpaces lets one call of a life fail, and looks at what is left with a disk that
// is well again.
func checkSpaces(rule faultfs.Rule, seed uint64, rng *rand.Rand) error {
	disk := memfs.New()
	fs := faultfs.New(disk)
	fs.Add(rule)
	before, after, err := liveInSpaces(fs, seed)
	if err != nil {
		return err
	}
	for _, left := range []*memfs.FS{disk.Clone(), testkit.RandomCut(rng)(disk)} {
		if err := lookAtSpaces(left, before, after); err != nil {
			return err
		}
	}
	return nil
}

// lookAtSpaces demands one of two states, also after a compaction.
func lookAtSpaces(disk *memfs.FS, before, after modeltest.SpacesState) error {
	db, err := stoat.Open(testkit.Dir, spacesOptions(disk))
	if err != nil {
		return err
	}
	defer db.Close()
	for _, compacts := range []bool{false, true} {
		if compacts {
			if err := db.Compact(context.Background(), stoat.CompactOptions{}); err != nil {
				return err
			}
		}
		got, err := modeltest.ReadSpaces(db)
		if err != nil {
			return err
		}
		if !got.Equal(before) && !got.Equal(after) {
			return fmt.Errorf("compacted %t: the keyspaces are %.200q, want %.200q or %.200q",
				compacts, fmt.Sprint(got), fmt.Sprint(before), fmt.Sprint(after))
		}
	}
	_, err = db.Check(context.Background(), stoat.CheckOptions{})
	return err
}

func TestFaults_KeyspacesAreWholeOrAbsent(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	counted := faultfs.New(memfs.New())
	if _, _, err := liveInSpaces(counted, seed); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 7))
	for range dose.Size(t, dose.States, 50, 300) {
		kind := kindsOfFaults[rng.IntN(len(kindsOfFaults))]
		rule := kind.rule
		rule.Nth, rule.Forever, rule.Seed = 1+rng.Int64N(counted.Calls()), rng.IntN(2) == 0, rng.Uint64()
		if err := checkSpaces(rule, seed, rng); err != nil {
			t.Fatalf("seed %d: call %d fails with %s, forever %t: %v", seed, rule.Nth, kind.name, rule.Forever, err)
		}
	}
}
