package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Faults that stores built as trees have had, each with a test of its name.

// A treeRun is a database that flushes and compacts much for little data.
type treeRun struct {
	t  *testing.T
	db *stoat.DB
}

// churn overwrites keys of its own until so many more compactions have ended.
func (r *treeRun) churn(compactions int64) {
	r.t.Helper()
	value := []byte(strings.Repeat("churn", 1<<10))
	until := r.db.Stats().Compactions + compactions
	for i := 0; r.db.Stats().Compactions < until; i++ {
		if i == 20_000 {
			r.t.Fatal("100 MB were written and nothing was compacted")
		}
		testkit.Must(r.t, r.set(fmt.Sprintf("churn %03d", i*7%50), value))
	}
}

func (r *treeRun) set(key string, value []byte) error {
	return r.db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte(key), value)
	}, stoat.WithDurability(stoat.Buffered))
}

func newTreeRun(t *testing.T, fs vfs.FS) *treeRun {
	t.Helper()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, MemtableSize: testkit.SmallMemtable, Compression: stoat.CompressionFast})
	testkit.Must(t, err)
	return &treeRun{t: t, db: db}
}

func TestDeletedKeys_StayDeletedInEveryLevel(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	r := newTreeRun(t, disk)
	for i := range 40 {
		testkit.Must(t, r.set(fmt.Sprintf("churn %03d deleted", i), []byte(strings.Repeat("old", 500))))
	}
	r.churn(3) // the old values go down
	testkit.Must(t, r.db.Update(func(tx stoat.Txn) error {
		for i := range 40 {
			if err := tx.Delete(fmt.Appendf(nil, "churn %03d deleted", i)); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 4 {
		r.churn(1)
		testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
			for i := range 40 {
				if v, err := tx.Get(fmt.Appendf(nil, "churn %03d deleted", i)); !errors.Is(err, stoat.ErrNotFound) {
					t.Fatalf("deleted key %d: %.20q, %v", i, v, err)
				}
			}
			items, err := testkit.ScanAll(tx, stoat.IterOptions{})
			if len(items) > 50 {
				t.Errorf("a scan shows %d keys, want at most 50", len(items))
			}
			return err
		}))
		testkit.Must(t, r.db.Close())
		r = newTreeRun(t, disk)
	}
	testkit.Must(t, r.db.Close())
}

func TestOpenIterator_KeepsItsFiles(t *testing.T) {
	t.Parallel()
	r := newTreeRun(t, memfs.New())
	value := []byte(strings.Repeat("seen by the iterator", 100))
	for i := range 200 {
		testkit.Must(t, r.set(fmt.Sprintf("churn %03d", i), value))
	}
	testkit.Must(t, testkit.WaitForFlushes(r.db))
	tx, err := r.db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	defer tx.Discard()
	it := tx.Iterator(stoat.IterOptions{})
	defer it.Close()
	for i := range 200 {
		// By now the tables that the iterator began with are replaced.
		if i == 3 {
			r.churn(6)
		}
		if !it.Next() || string(it.Key()) != fmt.Sprintf("churn %03d", i) || string(it.Value()) != string(value) {
			t.Fatalf("at %d: %q = %.20q, %v", i, it.Key(), it.Value(), it.Err())
		}
	}
	if it.Next() || it.Err() != nil {
		t.Errorf("after the end: %q, %v", it.Key(), it.Err())
	}
	testkit.Must(t, r.db.Close())
}

// Whatever Close says after flushes that failed, what was acknowledged and
// synced is there.
func TestFailedFlushesAndCompactions_LoseNothing(t *testing.T) {
	t.Parallel()
	for _, rule := range []faultfs.Rule{
		{Category: vfs.CatTable, Op: vfs.OpWrite, Forever: true},
		{Category: vfs.CatTable, Op: vfs.OpSyncData, Forever: true, Sync: vfs.SyncDropped},
		{Category: vfs.CatTable, Op: vfs.OpCreate, Forever: true},
		{Category: vfs.CatTable, Op: vfs.OpWrite, Nth: 9},
		{Op: vfs.OpSyncDir, Nth: 9, Forever: true, Sync: vfs.SyncDropped},
		{Category: vfs.CatValue, Op: vfs.OpWrite, Forever: true},
		{Category: vfs.CatValue, Op: vfs.OpWrite, Nth: 5},
		{Category: vfs.CatValue, Op: vfs.OpSyncData, Forever: true, Sync: vfs.SyncDropped},
		{Category: vfs.CatValue, Op: vfs.OpCreate, Forever: true},
	} {
		disk := memfs.New()
		faults := faultfs.New(disk)
		r := newTreeRun(t, faults)
		fault := faults.Add(rule)
		acknowledged := 0
		var err error
		for err == nil && acknowledged < 300 {
			err = r.set(fmt.Sprintf("key %03d", acknowledged), []byte(strings.Repeat("v", 2<<10)))
			if err == nil {
				acknowledged++
			}
		}
		if err != nil && !errors.Is(err, faultfs.ErrInjected) {
			t.Errorf("%+v: commit: %v", rule, err)
		}
		testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{})
			if len(items) != acknowledged {
				t.Errorf("%+v: %d keys are visible, %d were acknowledged", rule, len(items), acknowledged)
			}
			return err
		}))
		closed := r.db.Close()
		if fault.Fired() == 0 {
			t.Errorf("%+v: nothing has failed", rule)
		}
		left := disk.Clone()
		if closed == nil {
			left = disk.Crash(memfs.KeepNone, nil)
		}
		r = newTreeRun(t, left)
		testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{})
			if len(items) != acknowledged {
				t.Errorf("%+v: Close said %v; %d keys are left of %d", rule, closed, len(items), acknowledged)
			}
			return err
		}))
		testkit.Must(t, r.db.Close())
	}
}

// The edit of a compaction may be in the memory of the system only. Open deletes the tables
// that the edit drops, so it first makes the edit durable.
func TestFailedCompaction_OpenOnAFullDiskDeletesNothingThatAPowerCutNeeds(t *testing.T) {
	t.Parallel()
	for _, kind := range []memfs.CrashKind{memfs.KeepNone, memfs.KeepAll} {
		disk := memfs.New()
		faults := faultfs.New(disk)
		r := newTreeRun(t, faults)
		for range 2 {
			for i := range 10 {
				testkit.Must(t, r.set(fmt.Sprint("key ", i), []byte("value")))
			}
			testkit.Must(t, r.db.Collect(t.Context())) // only flushes
		}
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest, Sync: vfs.SyncDropped})
		testkit.WantError(t, "Compact", r.db.Compact(t.Context(), stoat.CompactOptions{}), faultfs.ErrInjected)
		testkit.WantError(t, "Close", r.db.Close(), faultfs.ErrInjected)

		disk.SetCapacity(disk.UsedBytes())
		r = newTreeRun(t, disk)
		left := disk.Crash(kind, nil)
		disk.SetCapacity(1 << 40)
		testkit.Must(t, r.db.Close())
		left.SetCapacity(1 << 40)
		r = newTreeRun(t, left)
		testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{})
			if len(items) != 10 {
				t.Errorf("%s: %d keys are left of 10", kind, len(items))
			}
			return err
		}))
		testkit.Must(t, r.db.Close())
	}
}
