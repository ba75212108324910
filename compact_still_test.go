package stoat

import (
	"testing"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
)

func TestCompaction_APauseIsEnoughToMakeLevel0Shallower(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	pausingRuns := db.engine.Jobs.Shape(work.Pausing, db.engine.Store.Horizon()).RunsMax
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
		if due, err := db.engine.Jobs.Tidy(c.now); err != nil || due != c.due {
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
	err := db.Compact(t.Context(), CompactOptions{Progress: func(CompactProgress) {
		if steps++; steps > most {
			return
		}
		flushSome(t, db) // all keys of the range once more
	}})
	if err != nil || steps > most {
		t.Errorf("%d steps, error %v", steps, err)
	}
	if v := db.engine.Store.Version(); len(v.Levels[manifest.Levels-1]) == 0 || v.Runs() == 0 {
		t.Errorf("%d tables of the last level, %d runs of level 0", len(v.Levels[manifest.Levels-1]), v.Runs())
	}
}
