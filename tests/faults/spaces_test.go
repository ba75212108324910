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
	timestampstest "github.com/stoatdb/stoat/tests/timestamps"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// spacesSteps is the number of operations on keyspaces in one life.
const spacesSteps = 40

// timedSteps is the number of operations at timestamps in one life.
const timedSteps = 30

// spacesOptions are the options of a database on a file system. Every second seed is for
// an encrypted one.
func spacesOptions(fs vfs.FS, seed uint64) *stoat.Options {
	return &stoat.Options{FS: fs, MemtableSize: testkit.SmallMemtable, Keys: testkit.KeysIf(seed%2 == 0),
		Filters: []stoat.Filter{modeltest.SignFilter{}}}
}

// liveInSpaces runs operations on keyspaces until one fails. It returns the state
// before that, and the state that the failed operation may have left.
func liveInSpaces(fs vfs.FS, seed uint64) (before, after modeltest.SpacesState, err error) {
	before = modeltest.SpacesState{"": {}}
	db, err := stoat.Open(testkit.Dir, spacesOptions(fs, seed))
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
		if err := lookAtSpaces(left, seed, before, after); err != nil {
			return err
		}
	}
	return nil
}

// lookAtSpaces demands one of two states, also after a compaction.
func lookAtSpaces(disk *memfs.FS, seed uint64, before, after modeltest.SpacesState) error {
	db, err := stoat.Open(testkit.Dir, spacesOptions(disk, seed))
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

// anyFault draws a rule for one of the calls of a life.
func anyFault(rng *rand.Rand, calls int64) (rule faultfs.Rule, what string) {
	kind := kindsOfFaults[rng.IntN(len(kindsOfFaults))]
	rule = kind.rule
	rule.Nth, rule.Forever, rule.Seed = 1+rng.Int64N(calls), rng.IntN(2) == 0, rng.Uint64()
	return rule, fmt.Sprintf("call %d fails with %s, forever %t", rule.Nth, kind.name, rule.Forever)
}

func TestFaults_KeyspacesAreWholeOrAbsent(t *testing.T) {
	t.Parallel()
	first := dose.Seed(t)
	rng := rand.New(rand.NewPCG(first, 7))
	states := dose.Size(t, dose.States, testkit.Raced(40, 15), 200)
	for seed := first; seed < first+2; seed++ {
		counted := faultfs.New(memfs.New())
		if _, _, err := liveInSpaces(counted, seed); err != nil {
			t.Fatal(err)
		}
		for range states / 2 {
			rule, what := anyFault(rng, counted.Calls())
			if err := checkSpaces(rule, seed, rng); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
		}
	}
}

// TestFaults_VersionsAtTimestampsAreWholeOrAbsent lets one call of a life with timestamps
// fail. Some lives are of encrypted databases.
func TestFaults_VersionsAtTimestampsAreWholeOrAbsent(t *testing.T) {
	t.Parallel()
	first := dose.Seed(t)
	rng := rand.New(rand.NewPCG(first, 8))
	states, failed := dose.Size(t, dose.States, 20, 80), 0
	for seed := first; seed < first+4; seed++ {
		calls, err := timestampstest.RunFaults(seed, timedSteps, faultfs.Rule{Path: "matches nothing"}, faultOf)
		if err != nil {
			t.Fatalf("seed %d, without faults: %v", seed, err)
		}
		for range states / 4 {
			rule, what := anyFault(rng, calls)
			fewer, err := timestampstest.RunFaults(seed, timedSteps, rule, faultOf)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, what, err)
			}
			if fewer < calls {
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no fault has cut a life short")
	}
}
