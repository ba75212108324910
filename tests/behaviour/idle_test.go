package behaviour

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Only the commit itself can tell the flusher that there is something to flush once
// commits end.
func TestIdle_OnlyCommitOfAnOpeningIsFlushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := memfs.NewVolatile()
		for opening := range 3 {
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: 4 << 20})
			testkit.Must(t, err)
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				for i := range 6000 {
					if err := tx.Set(testkit.Key(i), make([]byte, 100)); err != nil {
						return err
					}
				}
				return nil
			}))
			if n := db.Stats().Flushes; n != 0 {
				t.Fatalf("opening %d: %d flushes before it is idle", opening, n)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if s := db.Stats(); s.Flushes == 0 || s.MemtableEntries != 0 {
				t.Errorf("opening %d: %d flushes after a minute, %d entries are in memory", opening, s.Flushes, s.MemtableEntries)
			}
			testkit.Must(t, db.Close())
		}
	})
}

// In idleness the log moves to a small segment. When that fails so that the content
// of the log is unknown, commits end, and one event tells it.
func TestIdle_LogFailureIsToldAndNotTriedForEver(t *testing.T) {
	t.Parallel()
	ended := false
	for nth := int64(1); nth <= 8; nth++ { // more than there are, and no other work beside them
		synctest.Test(t, func(t *testing.T) {
			faults := faultfs.New(memfs.New())
			var log testkit.EventLog
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, Events: log.Add})
			testkit.Must(t, err)
			set := func() error {
				return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 300<<10)) })
			}
			for range 8 { // more than is left in the log in idleness
				testkit.Must(t, set())
			}
			synctest.Wait()
			faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: vfs.OpSyncData, Nth: nth, Err: vfs.ErrIO, Sync: vfs.SyncDropped})
			time.Sleep(time.Minute)
			synctest.Wait()
			faults.Clear()
			err = set()
			closed := db.Close()
			told := testkit.CountEvents[stoat.BackgroundError](&log)
			ended = ended || err != nil
			// A segment that could not be made was made in another way, or
			// later.
			if told > 1 || err != nil && told == 0 || (err == nil) != (closed == nil) {
				t.Errorf("sync %d: %d errors were told; then a commit says %v and Close %v", nth, told, err, closed)
			}
		})
	}
	if !ended {
		t.Error("no failure ended the commits")
	}
}

// A load leaves runs of level 0 and a memtable that is not full. When it ends, a
// pause is enough to merge the runs, and the memtable is flushed before: merged
// later by itself it would write the last level once more.
func TestIdle_RestOfALoadIsMergedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 1 << 20})
		testkit.Must(t, err)
		rng := rand.New(rand.NewPCG(1, 2))
		for db.Stats().Flushes < 6 || db.Stats().MemtableBytes < 1<<19 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				for range 200 {
					if err := tx.Set(testkit.Key(rng.IntN(1e9)), make([]byte, 100)); err != nil {
						return err
					}
				}
				return nil
			}))
			synctest.Wait() // for what it made due
		}
		before := db.Stats()
		time.Sleep(time.Minute)
		after := db.Stats()
		if after.MemtableEntries != 0 {
			t.Fatalf("%d entries are in memory after a minute", after.MemtableEntries)
		}
		if n := after.CompactedBytes - before.CompactedBytes; n > after.TableBytes*11/10 {
			t.Errorf("%d bytes were written to merge %d", n, after.TableBytes)
		}
		testkit.Must(t, db.Close())
	})
}

// The next segment of the log is there before it is needed, and no flush gives it
// back.
func TestIdle_TrickleIsFlushedForItsSizeAndNotForThePreparedLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fs := memfs.New()
		set := func(db *stoat.DB, i int) {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 450)) }))
		}
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
		testkit.Must(t, err)
		set(db, 0)
		testkit.Must(t, db.Close()) // its segment is free when the next begins
		db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
		testkit.Must(t, err)
		for i := range 1100 {
			set(db, i)
			time.Sleep(2 * time.Second)
		}
		s := db.Stats()
		if most := s.Log.BytesWritten/(256<<10) + 2; s.Flushes > most {
			t.Errorf("%d flushes for %d bytes of log, want %d at most", s.Flushes, s.Log.BytesWritten, most)
		}
		testkit.Must(t, db.Close())
	})
}
