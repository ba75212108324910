package steps

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
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
	heap := db.Engine.Store.View().Tree.FilterBytes()
	if of0, _ := filters(); of0 != 1 || heap == 0 {
		t.Errorf("%d tables of level 0 have filters, which take %d bytes", of0, heap)
	}
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
