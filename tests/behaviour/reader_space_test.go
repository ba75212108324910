package behaviour

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Only the end of the transaction can tell the background jobs that there is work.
func TestOpenTransaction_GivesSpaceBackWhenItEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 128 << 10})
		testkit.Must(t, err)
		testkit.SetKeys(t, db, 0, 3000, 100, 1)
		testkit.SetKeys(t, db, 3000, 4000, 2000, 1)
		tx := testkit.Begin(t, db, stoat.ReadOnly)
		testkit.Must(t, db.DropAll(t.Context()))
		time.Sleep(65 * time.Second)
		if s := db.Stats(); s.TableBytes == 0 || s.ValueBytes == 0 {
			t.Errorf("%d bytes of tables and %d of values although a transaction sees them", s.TableBytes, s.ValueBytes)
		}
		tx.Discard()
		time.Sleep(time.Second)
		if s := db.Stats(); s.Tables != 0 || s.Values != 0 || s.GarbageFiles != 0 {
			t.Errorf("%d tables, %d value files, %d files of garbage", s.Tables, s.Values, s.GarbageFiles)
		}
		testkit.Must(t, db.Close())
	})
}

// storedBytes returns how many bytes tables and value files take.
func storedBytes(db *stoat.DB) int64 { s := db.Stats(); return s.TableBytes + s.ValueBytes }

// overwriteAll sets the same 4,000 keys, compacts, and returns what that takes.
func overwriteAll(t *testing.T, db *stoat.DB, fill byte) int64 {
	t.Helper()
	testkit.SetKeys(t, db, 0, 3000, 100, fill)
	testkit.SetKeys(t, db, 3000, 4000, 2000, fill)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	return storedBytes(db)
}

// What was overwritten while a transaction was open, and merged to the last level
// as long as it was, is garbage from its end on.
func TestIdle_VersionsOfEndedSnapshotsAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 128 << 10})
		testkit.Must(t, err)
		before := overwriteAll(t, db, 1)
		tx := testkit.Begin(t, db, stoat.ReadOnly)
		overwriteAll(t, db, 2)
		time.Sleep(65 * time.Second)
		if after := storedBytes(db); after < before*19/10 {
			t.Errorf("%d bytes, %d before all was overwritten, although a transaction sees it", after, before)
		}
		if kept := db.Stats().SnapshotBytes; kept < before*8/10 || kept > before*12/10 {
			t.Errorf("%d bytes are told to be kept for the transaction, which sees %d", kept, before)
		}
		tx.Discard()
		time.Sleep(10 * time.Second)
		if after := storedBytes(db); after > before*11/10 {
			t.Errorf("%d bytes, %d before all was overwritten", after, before)
		}
		if kept := db.Stats().SnapshotBytes; kept != 0 {
			t.Errorf("%d bytes are told to be kept for a transaction that has ended", kept)
		}
		compactions := db.Stats().Compactions
		time.Sleep(time.Hour)
		if more := db.Stats().Compactions - compactions; more != 0 {
			t.Errorf("%d more merges in an hour", more)
		}
		testkit.Must(t, db.Close())
	})
}

// A batch that merged keeps its time by a snapshot. No file waits for the batch.
func TestIdle_VersionsThatAMergeInABatchKeptAreDropped(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b stoat.Batch) error{
		"discard": func(b stoat.Batch) error { b.Discard(); return nil },
		"commit":  func(b stoat.Batch) error { return b.Commit() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 128 << 10, MergeFunctions: []stoat.MergeFunction{merge.Append}, MergeFunction: merge.Append.Name()})
				testkit.Must(t, err)
				before := overwriteAll(t, db, 1)
				b := db.NewBatch(stoat.BatchOptions{})
				testkit.Must(t, b.Merge([]byte("merged"), []byte("operand")))
				overwriteAll(t, db, 2)
				time.Sleep(65 * time.Second)
				if after := storedBytes(db); after < before*19/10 {
					t.Errorf("%d bytes, %d before all was overwritten, although the batch keeps them", after, before)
				}
				testkit.Must(t, end(b))
				time.Sleep(10 * time.Second)
				if after := storedBytes(db); after > before*11/10 {
					t.Errorf("%d bytes, %d before all was overwritten", after, before)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

// Too few deletions to be worth a merge reach what they hide when they are a day
// old, in an idle database as well.
func TestIdle_DeletionsGrowOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), MemtableSize: 1 << 20})
		testkit.Must(t, err)
		testkit.SetKeys(t, db, 0, 30_000, 100, 1)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete(testkit.Key(1234)) }))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("~")})) // only flushes
		time.Sleep(23 * time.Hour)
		if n := db.Stats().Levels[0].Tables; n != 1 {
			t.Errorf("%d tables in level 0 before the deletion is old, want the one with it", n)
		}
		time.Sleep(2 * time.Hour)
		if n := db.Stats().Levels[0].Tables; n != 0 {
			t.Errorf("%d tables in level 0 when the deletion is old", n)
		}
		testkit.Must(t, db.Close())
	})
}

func TestStats_VersionsThatAKeyspaceKeepsAreNotForSnapshots(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks, err := db.Keyspace("three versions", &stoat.KeyspaceOptions{NumVersions: 3})
	testkit.Must(t, err)
	for range 3 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), make([]byte, 100)) }))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if kept := db.Stats().SnapshotBytes; kept != 0 {
		t.Errorf("%d bytes are said to be kept for transactions, and there never was one", kept)
	}
}
