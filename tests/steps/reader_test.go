package steps

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/transaction"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// beginAt begins a read-only transaction, and returns its slot, too.
func beginAt(t *testing.T, db *inside.DB) (transaction.Txn, *state.Slot) {
	t.Helper()
	slot, err := db.Engine.Store.Acquire()
	testkit.Must(t, err)
	return db.Engine.Transactions.BeginAt(context.Background(), slot, false), slot
}

// Each of two transactions keeps what it began with, and lets go of it when it
// ends, though the other goes on.
func TestReader_ATransactionKeepsWhatWasThereWhenItBegan(t *testing.T) {
	t.Parallel()
	for _, firstEnds := range []bool{false, true} {
		db := openStill(t)
		var readers [2]stoat.Txn
		for i := range readers {
			flushKey(t, db, "key")
			mustMergeAll(t, db)
			var err error
			if readers[i], err = db.Begin(stoat.ReadOnly); err != nil {
				t.Fatal(err)
			}
			flushKey(t, db, "key")
			mustMergeAll(t, db)
			if n := len(tablesKept(t, db)); n != i+1 {
				t.Errorf("%d tables are kept for %d transactions, which began with one each", n, i+1)
			}
		}
		first, second := readers[0], readers[1]
		if !firstEnds {
			first, second = second, first
		}
		db.Woken(db.Engine.Workers.Sweeper)
		if first.Discard(); !db.Woken(db.Engine.Workers.Sweeper) {
			t.Error("a transaction has ended, and the sweeper is not woken")
		}
		if n := len(tablesKept(t, db)); n != 1 {
			t.Errorf("%d tables are kept for the other transaction", n)
		}
		db.Woken(db.Engine.Workers.Sweeper)
		if second.Discard(); !db.Woken(db.Engine.Workers.Sweeper) {
			t.Error("the other transaction has ended, and the sweeper is not woken")
		}
		if db.Engine.Store.Sweep(); !db.Engine.Store.ObsoleteEmpty() {
			t.Error("something obsolete is kept for no reader")
		}
	}
}

// The mark of the last holder keeps what that one had, until the next holder stores
// its own. The next may stay open for long, and no other event may start a sweep.
func TestReader_ATransactionThatTakesOverASlotLetsGoOfWhatTheOneBeforeHad(t *testing.T) {
	t.Parallel()
	loaded := &interposer{point: work.PointLoaded}
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: loaded.at})
	testkit.Must(t, err)
	flushKey(t, db, "key")
	before, slot := beginAt(t, db)
	flushKey(t, db, "key")
	mustMergeAll(t, db)
	before.Discard()
	loaded.do = func() {
		if len(tablesKept(t, db)) == 0 {
			t.Error("the mark of the holder before keeps nothing")
		}
	}
	db.Woken(db.Engine.Workers.Sweeper)
	next, nextSlot := beginAt(t, db)
	woken := db.Woken(db.Engine.Workers.Sweeper)
	if nextSlot != slot {
		t.Fatal("it has another slot")
	}
	if !woken {
		t.Error("the sweeper is not told that it does not keep what the holder before had")
	}
	if db.Engine.Store.Sweep(); !db.Engine.Store.ObsoleteEmpty() {
		t.Error("something obsolete is kept for a transaction that does not have it")
	}
	next.Discard()
	testkit.Must(t, db.Close())
}

// An openingFS tells before it opens a file.
type openingFS struct {
	vfs.FS
	opens func(name string)
}

func (f *openingFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	if f.opens != nil {
		f.opens(name)
	}
	return f.FS.Open(name, cat)
}

// A transaction reads an old view, and its commit looks for conflicts in the
// newest. That must stay, too, until the look has ended.
func TestReader_ALookForConflictsKeepsTheTablesThatItLooksInto(t *testing.T) {
	t.Parallel()
	disk := &openingFS{FS: memfs.New()}
	// The budget has no room for the tables: each is opened when it is first read.
	db := openStillWith(t, &stoat.Options{FS: disk, MemoryBudget: 1 << 20, MemtableSize: 1 << 20})
	tx, err := db.Begin(stoat.ReadWrite)
	testkit.Must(t, err)
	if _, err := tx.Get([]byte("key")); !errors.Is(err, stoat.ErrNotFound) {
		t.Fatal(err)
	}
	testkit.Must(t, tx.Set([]byte("other"), nil))
	// Other transactions leave a slot with the mark of a view without the last table.
	before, slot := beginAt(t, db)
	before.Discard()
	for range 2 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range 1500 {
				if err := tx.Set(memoryKey(i), make([]byte, 300)); err != nil {
					return err
				}
			}
			return tx.Set([]byte("key"), nil)
		}))
		mustFlush(t, db)
	}
	replaced := false
	disk.opens = func(name string) {
		if !strings.HasSuffix(name, ".table") || replaced {
			return
		}
		replaced = true
		if !slot.Held() {
			t.Error("the look for conflicts has another slot")
		}
		merged := make(chan error, 1)
		go func() { merged <- mergeAll(db) }()
		select {
		case err := <-merged:
			testkit.Must(t, err)
		case <-time.After(time.Minute):
			t.Error("a table is let go of, which waits for the commit that opens it")
			return
		}
		if kept := tablesKept(t, db); len(kept) != 2 {
			t.Errorf("tables %d are kept while a commit looks into two", kept)
		}
	}
	if err := tx.Commit(); !errors.Is(err, stoat.ErrConflict) {
		t.Errorf("commit: %v, want %v", err, stoat.ErrConflict)
	}
	if !replaced {
		t.Error("the commit looked into no table")
	}
	if kept := tablesKept(t, db); len(kept) != 0 {
		t.Errorf("tables %d are kept for no reader", kept)
	}
}

// holdTables returns the tables of a state that the slot keeps.
func holdTables(t *testing.T, db *inside.DB) (*state.Slot, []base.FileNum) {
	t.Helper()
	slot, held, err := db.Engine.Store.HoldFiles()
	testkit.Must(t, err)
	var nums []base.FileNum
	for _, tables := range held.Version.Levels {
		for _, table := range tables {
			nums = append(nums, table.Num)
		}
	}
	return slot, nums
}

// Between an edit of the manifest and the view that follows it, the state has a
// table that no view has had yet.
func TestReader_AStateKeepsTheFilesThatTheViewDoesNotHaveYet(t *testing.T) {
	t.Parallel()
	between := &interposer{point: work.PointEdited}
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: between.at})
	if err != nil {
		t.Fatal(err)
	}
	flushKey(t, db, "key")
	var slot *state.Slot
	var nums []base.FileNum
	between.do = func() {
		between.do = nil
		slot, nums = holdTables(t, db)
	}
	flushKey(t, db, "key")
	flushKey(t, db, "key")
	mustMergeAll(t, db)
	if kept := tablesKept(t, db); len(nums) != 2 || len(kept) != 2 || kept[0]+kept[1] != nums[0]+nums[1] {
		t.Errorf("tables %d are kept for a reader that has a state with %d", kept, nums)
	}
	db.Engine.Store.Release(slot)
	if kept := tablesKept(t, db); len(kept) != 0 {
		t.Errorf("tables %d are kept for no reader", kept)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// While the state is loaded, only the first of the two marks can keep its files:
// that of the holder before does not know of those that were made since.
func TestReader_AStateKeepsItsFilesBeforeItIsKnownWhichTheyAre(t *testing.T) {
	t.Parallel()
	between := &interposer{point: work.PointStated}
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: between.at})
	testkit.Must(t, err)
	before, slotBefore := beginAt(t, db)
	flushKey(t, db, "key")
	before.Discard()
	between.do = func() {
		flushKey(t, db, "key")
		mustMergeAll(t, db)
	}
	slot, nums := holdTables(t, db)
	if slot != slotBefore {
		t.Fatal("it has another slot")
	}
	if kept := tablesKept(t, db); len(nums) != 1 || !slices.Contains(kept, nums[0]) {
		t.Errorf("tables %d are kept for a reader that has a state with %d", kept, nums)
	}
	db.Engine.Store.Release(slot)
	if kept := tablesKept(t, db); len(kept) != 0 {
		t.Errorf("tables %d are kept for no reader", kept)
	}
	testkit.Must(t, db.Close())
}

// checkBeside checks a database of one table, and does something meanwhile.
func checkBeside(t *testing.T, db *inside.DB, do func()) {
	t.Helper()
	times := 0
	_, err := db.Check(t.Context(), stoat.CheckOptions{Progress: func(stoat.CheckProgress) { times++; do() }})
	testkit.Must(t, err)
	if times != 1 {
		t.Fatalf("the check read %d files", times)
	}
}

// wantEntries demands that there are so many versions in tables.
func wantEntries(t *testing.T, db *inside.DB, want uint64) {
	t.Helper()
	got := uint64(0)
	for _, tables := range db.Engine.Store.Version().Levels {
		for _, table := range tables {
			got += table.Entries
		}
	}
	if got != want {
		t.Errorf("%d versions are in tables, want %d", got, want)
	}
}

// Checking a large database takes long, and needs its files alone.
func TestReader_ACheckKeepsNoVersionsAndNoMemtables(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	flushKey(t, db, "key")
	checkBeside(t, db, func() {
		flushKey(t, db, "key")
		mustMergeAll(t, db)
		wantEntries(t, db, 1)
		if kept := tablesKept(t, db); len(kept) != 1 {
			t.Errorf("tables %d are kept, want the one that is checked", kept)
		}
		if kept := db.Engine.Store.ObsoleteMemtableBytes(); kept != 0 {
			t.Errorf("%d bytes of memtables are kept", kept)
		}
	})
	if kept := tablesKept(t, db); len(kept) != 0 {
		t.Errorf("tables %d are kept for no reader", kept)
	}
}

func TestReader_ValuesExpireBesideACheck(t *testing.T) {
	t.Parallel()
	clock := clockAt(1000)
	db := openStillWith(t, &stoat.Options{FS: memfs.New(), Clock: clock})
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte("key"), nil, stoat.ExpiresAt(time.UnixMilli(2000)))
	}))
	mustFlush(t, db)
	checkBeside(t, db, func() {
		clock.ms.Store(3000)
		flushKey(t, db, "other")
		mustMergeAll(t, db)
		wantEntries(t, db, 1)
	})
}

// The database may never be opened for writing again, which would delete leftovers.
func TestReader_CloseDeletesWhatItsLastReadersKept(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := inside.Open("/db", &stoat.Options{FS: disk}, work.Executor{Manual: true}) // no goroutine sweeps
	testkit.Must(t, err)
	flushKey(t, db, "key")
	reader, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	flushKey(t, db, "key")
	mustMergeAll(t, db)
	reader.Discard()
	testkit.Must(t, db.Close())
	copied, err := inside.Open("/db", &stoat.Options{FS: disk, ReadOnly: true}, work.Executor{})
	testkit.Must(t, err)
	report, err := copied.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	if len(report.Warnings) > 0 {
		t.Errorf("after an orderly end there are %q", report.Warnings)
	}
	testkit.Must(t, copied.Close())
}
