package steps

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestCompaction_APauseIsEnoughToMakeLevel0Shallower(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	pausingRuns := db.Engine.Jobs.Shape(work.Pausing, db.Engine.Store.Horizon()).RunsMax
	if pausingRuns < 2 {
		t.Fatalf("%d runs may hold one key in a pause", pausingRuns)
	}
	for i, c := range []struct {
		flushes int
		now     work.Load
		due     bool
	}{
		{1, work.Busy, true}, // the run meets nothing and sinks
		{pausingRuns, work.Busy, false},
		{0, work.Pausing, true},
		{1, work.Pausing, false},
		{0, work.Idle, true},
	} {
		for range c.flushes {
			flushSome(t, db)
		}
		if due, err := db.Engine.Jobs.Tidy(c.now); err != nil || due != c.due {
			t.Fatalf("step %d: a compaction is due: %t, want %t, error %v", i, due, c.due, err)
		}
	}
}

// The test merges a tree whose level 0 is wide, and compares all keys with a map after each
// merge, and after the database was opened again. The power fails in the middle of merges
// of small runs.
func TestCompaction_WideLevel0KeepsTheNewestOfEachKey(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rng, cutting := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
		disk := memfs.New()
		db := openStillOn(t, disk)
		want := map[string]string{}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for k := range wideKeys {
				want[wideKey(k)] = wideValue(0)
				if err := tx.Set([]byte(wideKey(k)), []byte(wideValue(0))); err != nil {
					return err
				}
			}
			return nil
		}))
		smallRuns, cuts := 0, 0
		for round := range 100 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return changeSome(tx, rng, round, want) }))
			mustFlush(t, db)
			if round%10 > 6 {
				continue // runs gather
			}
			var plan compact.Plan
			left := cutsIn(disk, cutting, func() {
				var err error
				plan, err = mergeWide(db, rng.IntN(8) == 0)
				testkit.Must(t, err)
			})
			sameAs(t, db, want)
			if plan.Reason != compact.ReasonRuns || plan.OutputLevel > 0 {
				continue
			}
			smallRuns++
			for _, cut := range left {
				cuts++
				after := openStillOn(t, cut)
				sameAs(t, after, want)
				testkit.Must(t, after.Close())
			}
		}
		if smallRuns < 5 || cuts < 5 {
			t.Errorf("seed %d: small runs were merged %d times, and %d power cuts met them", seed, smallRuns, cuts)
		}
		testkit.Must(t, db.Close())
		sameAs(t, openStillOn(t, disk), want)
	}
}

// cutsIn cuts the power at some of the operations that work does on a disk. It returns what
// is left of the disk each time.
func cutsIn(disk *memfs.FS, rng *rand.Rand, work func()) (cuts []*memfs.FS) {
	cut := testkit.RandomCut(rng)
	var mu sync.Mutex
	disk.SetHook(func(vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(4) == 0 {
			cuts = append(cuts, cut(disk))
		}
	})
	defer disk.SetHook(nil)
	work()
	return cuts
}

const wideKeys = 2000

func wideKey(k int) string { return fmt.Sprintf("%04d", k) }

func wideValue(round int) string { return fmt.Sprintf("%0100d", round) }

// changeSome sets and deletes random keys, and deletes a range of them now and then.
func changeSome(tx stoat.Txn, rng *rand.Rand, round int, want map[string]string) error {
	from, span := rng.IntN(wideKeys), 1+rng.IntN(wideKeys)
	for range 1 + rng.IntN(60) {
		k := wideKey((from + rng.IntN(span)) % wideKeys)
		if rng.IntN(4) == 0 {
			delete(want, k)
			if err := tx.Delete([]byte(k)); err != nil {
				return err
			}
			continue
		}
		want[k] = wideValue(1 + round)
		if err := tx.Set([]byte(k), []byte(want[k])); err != nil {
			return err
		}
	}
	if rng.IntN(10) > 0 {
		return nil
	}
	lo, hi := wideKey(from), wideKey(from+10)
	maps.DeleteFunc(want, func(k, _ string) bool { return lo <= k && k < hi })
	return tx.DeleteRange([]byte(lo), []byte(hi))
}

// mergeWide does the most urgent compaction of a tree whose level 0 is wide. It returns an
// empty plan if none is due.
func mergeWide(db *inside.DB, idle bool) (compact.Plan, error) {
	jobs := db.Engine.Jobs
	jobs.Compacting.Lock()
	defer jobs.Compacting.Unlock()
	s := jobs.Shape(work.Busy, db.Engine.Store.Horizon())
	s.BaseSizeMin, s.TableSize, s.RunsMax, s.Idle = 40<<10, 1<<20, 4, idle
	plan, due := compact.Pick(db.Engine.Store.Version(), s)
	if !due {
		return compact.Plan{}, nil
	}
	return plan, jobs.Run(plan, db.Engine.Group.Err, nil)
}

// sameAs compares all keys of the database with a map.
func sameAs(t *testing.T, db *inside.DB, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for k, v := range tx.All() {
			got[string(k)] = string(v)
		}
		return tx.Err()
	}))
	if !maps.Equal(got, want) {
		t.Fatalf("the database has %d keys that differ from the %d expected ones", len(got), len(want))
	}
}

func TestCompact_EndsWhileCommitsOverwriteTheRange(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	flushSome(t, db)
	flushSome(t, db)
	const most = 20
	steps := 0
	err := db.Compact(t.Context(), stoat.CompactOptions{Progress: func(stoat.CompactProgress) {
		if steps++; steps > most {
			return
		}
		flushSome(t, db) // all keys of the range once more
	}})
	if err != nil || steps > most {
		t.Errorf("%d steps, error %v", steps, err)
	}
	if v := db.Engine.Store.Version(); len(v.Levels[manifest.Levels-1]) == 0 || v.Runs() == 0 {
		t.Errorf("%d tables of the last level, %d runs of level 0", len(v.Levels[manifest.Levels-1]), v.Runs())
	}
}

// The merge has decided what to keep before the discard point rises. It creates its tables after
// Compact was called.
func TestCompact_FreesWhatAMergeUnderWayKeeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const versions, keys = 10, 200
		merging := &interposer{point: work.PointCreate}
		db, err := inside.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable}, work.Executor{Manual: true, Reach: merging.at})
		testkit.Must(t, err)
		ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
		testkit.Must(t, err)
		for i := range versions {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				timed := tx.In(ks).At(uint64(1 + i))
				return testkit.Times(keys, func(i int) error { return timed.Set(testkit.Key(i), make([]byte, 100)) })
			}))
			mustFlush(t, db)
		}
		compacted := make(chan error, 1)
		merging.do = func() {
			merging.do = nil
			go func() {
				err := ks.DiscardBelow(versions)
				if err == nil {
					err = db.Compact(t.Context(), stoat.CompactOptions{})
				}
				compacted <- err
			}()
			synctest.Wait() // Compact waits for the merge
		}
		mustMergeAll(t, db)
		testkit.Must(t, <-compacted)
		report, err := db.Check(t.Context(), stoat.CheckOptions{})
		testkit.Must(t, err)
		if report.Entries != keys {
			t.Errorf("tables have %d versions of %d keys", report.Entries, keys)
		}
		testkit.Must(t, db.Close())
	})
}

func TestFilter_TablesHaveOneAsLongAsTheyAreInLevel0(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	flushSome(t, db)
	filters := func() (of0, others int) {
		for level, tables := range db.Engine.Store.Version().Levels {
			for _, m := range tables {
				switch {
				case m.Filter != nil && level == 0:
					of0++
				case m.Filter != nil:
					others++
				}
			}
		}
		return of0, others
	}
	view := db.Engine.Store.View().Tree
	if of0, _ := filters(); of0 != 1 || view.FilterBytes() == 0 {
		t.Errorf("%d tables of level 0 have filters, which take %d bytes", of0, view.FilterBytes())
	}
	heap := view.HeapBytes()
	for _, r := range db.Engine.Store.Files().Residents(nil) {
		heap += r.HeapBytes()
	}
	if got, told := db.Engine.Store.ReaderBytes(nil), db.Stats().Memory.FileHeap; got != heap || told != heap {
		t.Errorf("files take %d bytes of the heap by one count, %d by another, want %d", got, told, heap)
	}
	if due, err := db.Engine.Jobs.Tidy(work.Busy); !due || err != nil {
		t.Fatalf("it sinks: %t, %v", due, err)
	}
	if of0, others := filters(); of0+others > 0 || db.Engine.Store.View().Tree.FilterBytes() > 0 {
		t.Errorf("%d tables of level 0 and %d below have filters", of0, others)
	}
}
