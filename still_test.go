package stoat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// openStill opens an empty database whose background jobs only the test runs.
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
	db, err := openWith("/db", opts, work.Executor{Manual: true})
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
func setSome(t *testing.T, db *DB) {
	t.Helper()
	if err := db.Update(func(tx Txn) error {
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

// flushSome makes a run of level 0 that overlaps the others.
func flushSome(t *testing.T, db *DB) {
	t.Helper()
	setSome(t, db)
	if err := rotateAndFlush(db); err != nil {
		t.Fatal(err)
	}
}

// rotateAndFlush flushes what is in memory.
func rotateAndFlush(db *DB) error {
	err := db.engine.Commits.Rotate(true)
	if err == nil {
		_, err = db.engine.Jobs.FlushNext()
	}
	return err
}

// leaveGarbage makes a value file that is half garbage, and known to be.
func leaveGarbage(db *DB, keys string) error {
	for _, step := range []int{1, 2} {
		err := db.Update(func(tx Txn) error {
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
