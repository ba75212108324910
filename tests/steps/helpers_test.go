package steps

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// openStill opens an empty database whose background jobs only the test runs.
func openStill(t *testing.T) *inside.DB {
	t.Helper()
	return openStillOn(t, memfs.New())
}

func openStillOn(t *testing.T, fs vfs.FS) *inside.DB {
	t.Helper()
	return openStillWith(t, &stoat.Options{FS: fs})
}

func openStillWith(t *testing.T, opts *stoat.Options) *inside.DB {
	t.Helper()
	db, err := inside.Open(testkit.Dir, opts, work.Executor{Manual: true})
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	return db
}

// An interposer does something of its own whenever a job reaches a point. Its
// method at is the Reach of an executor.
type interposer struct {
	point work.Point
	do    func()
	times int // how often do was called
	inDo  bool
}

func (i *interposer) at(p work.Point) {
	if p != i.point || i.do == nil || i.inDo {
		return
	}
	i.inDo = true
	i.times++
	i.do()
	i.inDo = false
}

// setSome commits the same keys each time.
func setSome(t *testing.T, db *inside.DB) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 10 {
			if err := tx.Set(fmt.Appendf(nil, "%d", i), []byte("value")); err != nil {
				return err
			}
		}
		return nil
	}))
}

// flushSome makes a run of level 0 that overlaps the others.
func flushSome(t *testing.T, db *inside.DB) {
	t.Helper()
	setSome(t, db)
	mustFlush(t, db)
}

// rotateAndFlush flushes what is in memory.
func rotateAndFlush(db *inside.DB) error {
	err := db.Engine.Commits.Rotate(true)
	if err == nil {
		_, err = db.Engine.Jobs.FlushNext()
	}
	return err
}

// leaveGarbage makes a value file that is half garbage, and known to be.
func leaveGarbage(db *inside.DB, keys string) error {
	for _, step := range []int{1, 2} {
		err := db.Update(func(tx stoat.Txn) error {
			for n := 0; n < 40; n += step {
				value := strings.Repeat(fmt.Sprint(step), int(db.Settings().ValueThreshold))
				if err := tx.Set(fmt.Appendf(nil, "%s-%02d", keys, n), []byte(value)); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = rotateAndFlush(db)
		}
		if err != nil {
			return err
		}
	}
	return mergeAll(db)
}

// mustFlush flushes what is in memory.
func mustFlush(t *testing.T, db *inside.DB) {
	t.Helper()
	testkit.Must(t, rotateAndFlush(db))
}

// mergeAll takes all tables to the last level, so that garbage is known. Values
// stay where they are.
func mergeAll(db *inside.DB) error {
	step := func() (due bool, err error) {
		db.Engine.Jobs.Compacting.Lock()
		defer db.Engine.Jobs.Compacting.Unlock()
		shape := db.Engine.Jobs.Shape(work.Busy, db.Engine.Store.Horizon())
		plan, due := compact.PickRange(db.Engine.Store.Version(), shape, compact.Range{UpTo: base.SeqNumMax})
		if due {
			err = db.Engine.Jobs.Run(plan, db.Engine.Group.Err, nil)
		}
		return due, err
	}
	for {
		if due, err := step(); !due || err != nil {
			return err
		}
	}
}

// flushKey commits a key and flushes it to a table of its own.
func flushKey(t *testing.T, db *inside.DB, key string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte("value")) }))
	mustFlush(t, db)
}

// mustMergeAll merges all tables into one level.
func mustMergeAll(t *testing.T, db *inside.DB) {
	t.Helper()
	testkit.Must(t, mergeAll(db))
}

// tablesKept returns the obsolete tables that readers keep: after a sweep the
// manifest does not know them, and the directory has them.
func tablesKept(t *testing.T, db *inside.DB) (kept []base.FileNum) {
	t.Helper()
	db.Engine.Store.Sweep()
	names, err := db.Engine.Store.Orphans()
	testkit.Must(t, err)
	for _, name := range names {
		if num, ok := base.ParseTableName(name); ok {
			kept = append(kept, num)
		}
	}
	return kept
}
