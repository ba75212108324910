package stoat

import (
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// still is a driver of a database that nobody drives but the test.
type still struct{}

func (still) at(point) {}

// openStill opens an empty database in which nothing happens by itself.
func openStill(t *testing.T) *DB {
	t.Helper()
	return openStillOn(t, memfs.New())
}

func openStillOn(t *testing.T, fs vfs.FS) *DB {
	t.Helper()
	return openStillWith(t, &Options{FS: fs})
}

func openStillWith(t *testing.T, opts *Options) *DB {
	t.Helper()
	db, err := openDriven("/db", opts, still{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestAPauseIsEnoughToMakeLevel0Shallower(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	for i, c := range []struct {
		flushes int
		now     calm
		due     bool
	}{
		{1, busy, true}, // it meets nothing and sinks
		{pausingRuns, busy, false},
		{0, pausing, true},
		{1, pausing, false},
		{0, idling, true},
	} {
		for range c.flushes {
			flushSome(t, db)
		}
		if due, err := db.tidy(c.now); err != nil || due != c.due {
			t.Fatalf("step %d: a compaction is due: %t, want %t, error %v", i, due, c.due, err)
		}
	}
}

// flushSome makes a run of level 0 that overlaps the others.
func flushSome(t *testing.T, db *DB) {
	t.Helper()
	setSome(t, db)
	err := db.rotate()
	if err == nil {
		v := db.view.Load()
		err = db.flush(v, db.flushable(v))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// setSome commits the same keys each time.
func setSome(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Update(func(tx *Txn) error {
		for i := range 10 {
			if err := tx.Set(fmt.Appendf(nil, "%d", i), []byte("value")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestItBecomesCalmerStepByStep(t *testing.T) {
	t.Parallel()
	var q quietTime
	for _, c := range []struct {
		quiet       time.Duration
		want        calm
		atMost      time.Duration
		calmerLater bool
	}{{0, busy, pauseAfter, true}, {pauseAfter, pausing, idleAfter - pauseAfter, true}, {idleAfter, idling, 0, false}} {
		q.from.Store(monotonic() - int64(c.quiet))
		now, calmer := q.calm()
		// The test itself takes time, in which it may have become calmer.
		if now < c.want || calmer > c.atMost || now == c.want && calmer > 0 != c.calmerLater {
			t.Errorf("after %v it is %d for %v more", c.quiet, now, calmer)
		}
	}
}

func TestCompactEndsWhileOthersWrite(t *testing.T) {
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
	if v := db.manifest.State().Version; len(v.Levels[manifest.Levels-1]) == 0 || v.Runs() == 0 {
		t.Errorf("%d tables of the last level, %d runs of level 0", len(v.Levels[manifest.Levels-1]), v.Runs())
	}
}
