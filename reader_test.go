package stoat

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// flushKey commits a key and flushes it to a table of its own.
func flushKey(t *testing.T, db *DB, key string) {
	t.Helper()
	if err := db.Update(func(tx *Txn) error { return tx.Set([]byte(key), []byte("value")) }); err != nil {
		t.Fatal(err)
	}
	if err := db.rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.flushNext(); err != nil {
		t.Fatal(err)
	}
}

// mergeAll merges all tables into one level.
func mergeAll(t *testing.T, db *DB) {
	t.Helper()
	c := compaction{db: db, stop: db.stopped, upTo: base.SeqNumMax}
	if err := c.each(&db.compacting, c.sink); err != nil {
		t.Fatal(err)
	}
}

// tablesKept returns the tables that are garbage and that readers keep.
func tablesKept(db *DB) (kept []base.FileNum) {
	db.sweep()
	for _, r := range db.garbage.heap {
		if r.memtable == nil {
			kept = append(kept, r.file)
		}
	}
	return kept
}

// Each of two transactions keeps what it began with, and lets go of it when it
// ends, though the other goes on.
func TestATransactionKeepsWhatWasThereWhenItBegan(t *testing.T) {
	t.Parallel()
	for _, firstEnds := range []bool{false, true} {
		db := openStill(t)
		var readers [2]*Txn
		for i := range readers {
			flushKey(t, db, "key")
			mergeAll(t, db)
			var err error
			if readers[i], err = db.Begin(ReadOnly); err != nil {
				t.Fatal(err)
			}
			flushKey(t, db, "key")
			mergeAll(t, db)
			if n := len(tablesKept(db)); n != i+1 {
				t.Errorf("%d tables are kept for %d transactions, which began with one each", n, i+1)
			}
		}
		first, second := readers[0], readers[1]
		if !firstEnds {
			first, second = second, first
		}
		<-db.background.sweeper.wakes(first.Discard)
		if n := len(tablesKept(db)); n != 1 {
			t.Errorf("%d tables are kept for the other transaction", n)
		}
		<-db.background.sweeper.wakes(second.Discard)
		if db.sweep(); len(db.garbage.heap) != 0 {
			t.Errorf("%d relics are kept for nobody", len(db.garbage.heap))
		}
	}
}

// The mark of the holder before keeps what that one had, until the next holder
// stores its own. That may be open for long, and nobody else may ever sweep.
func TestATransactionThatTakesOverASlotLetsGoOfWhatTheOneBeforeHad(t *testing.T) {
	t.Parallel()
	loaded := &interposer{point: pointLoaded}
	db, err := openDriven("/db", &Options{FS: memfs.New()}, loaded)
	mustOK(t, err)
	flushKey(t, db, "key")
	before, err := db.Begin(ReadOnly)
	mustOK(t, err)
	flushKey(t, db, "key")
	mergeAll(t, db)
	slot := before.state.slot
	before.Discard()
	loaded.do = func() {
		if len(tablesKept(db)) == 0 {
			t.Error("the mark of the holder before keeps nothing")
		}
	}
	var next *Txn
	woken := db.background.sweeper.wakes(func() { next, err = db.Begin(ReadOnly) })
	mustOK(t, err)
	if next.state.slot != slot {
		t.Fatal("it has another slot")
	}
	select {
	case <-woken:
	default:
		t.Error("nobody is told that it does not keep what the holder before had")
	}
	if db.sweep(); len(db.garbage.heap) != 0 {
		t.Errorf("%d relics are kept for a transaction that does not have them", len(db.garbage.heap))
	}
	next.Discard()
	mustOK(t, db.Close())
}

// wakes returns the tokens of a worker, of which do should leave one.
func (w *worker) wakes(do func()) <-chan struct{} {
	select {
	case <-w.work:
	default:
	}
	do()
	return w.work
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
func TestALookForConflictsKeepsTheTablesThatItLooksInto(t *testing.T) {
	t.Parallel()
	disk := &openingFS{FS: memfs.New()}
	db := openStillOn(t, disk)
	db.opts.MemoryBudget = 0 // so that a table is opened when it is first read
	tx, err := db.Begin(ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Get([]byte("key")); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := tx.Set([]byte("other"), nil); err != nil {
		t.Fatal(err)
	}
	// Somebody else leaves a slot with the mark of a view that has no tables.
	before, err := db.Begin(ReadOnly)
	mustOK(t, err)
	slot := before.state.slot
	stale := slot.Data.reads.Load()
	before.Discard()
	flushKey(t, db, "key")
	flushKey(t, db, "key")
	slot.Data.reads.Store(stale) // as if none of these had taken the slot
	replaced := false
	disk.opens = func(name string) {
		if !strings.HasSuffix(name, ".table") || replaced {
			return
		}
		replaced = true
		if !slot.Held() {
			t.Error("the look for conflicts has another slot")
		}
		db.garbage.sweeping.Lock() // what is let go of is only looked at here
		defer db.garbage.sweeping.Unlock()
		mergeAll(t, db)
		for _, r := range db.garbage.takeUnread(db.readers) {
			if r.memtable == nil {
				t.Errorf("table %d is let go of while somebody looks into it", r.file)
			}
		}
	}
	// Commit looks for room before, and may leave that slot with the newest mark.
	if hit, err := db.conflicts(&tx.state.writes.reads, tx.seq); !hit || err != nil {
		t.Errorf("a conflict: %t, %v", hit, err)
	}
	tx.Discard()
	if !replaced {
		t.Error("nobody looked into a table")
	}
	if kept := tablesKept(db); len(kept) != 0 {
		t.Errorf("tables %d are kept for nobody", kept)
	}
}

// holdTables returns the tables of a state that the slot keeps.
func holdTables(t *testing.T, db *DB) (*readerSlot, []base.FileNum) {
	t.Helper()
	slot, state, err := db.holdState()
	mustOK(t, err)
	var nums []base.FileNum
	for _, tables := range state.Version.Levels {
		for _, table := range tables {
			nums = append(nums, table.Num)
		}
	}
	return slot, nums
}

// Between an edit of the manifest and the view that follows it, the state has a
// table that no view has had yet.
func TestAStateKeepsTheFilesThatTheViewDoesNotHaveYet(t *testing.T) {
	t.Parallel()
	between := &interposer{point: pointEdited}
	db, err := openDriven("/db", &Options{FS: memfs.New()}, between)
	if err != nil {
		t.Fatal(err)
	}
	flushKey(t, db, "key")
	var slot *readerSlot
	var state []base.FileNum
	between.do = func() {
		between.do = nil
		slot, state = holdTables(t, db)
	}
	flushKey(t, db, "key")
	flushKey(t, db, "key")
	mergeAll(t, db)
	if kept := tablesKept(db); len(state) != 2 || len(kept) != 2 || kept[0]+kept[1] != state[0]+state[1] {
		t.Errorf("tables %d are kept for who has a state with %d", kept, state)
	}
	db.release(slot)
	if kept := tablesKept(db); len(kept) != 0 {
		t.Errorf("tables %d are kept for nobody", kept)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// While the state is loaded, only the first of the two marks can keep its files:
// that of the holder before does not know of those that were made since.
func TestAStateKeepsItsFilesBeforeItIsKnownWhichTheyAre(t *testing.T) {
	t.Parallel()
	between := &interposer{point: pointStated}
	db, err := openDriven("/db", &Options{FS: memfs.New()}, between)
	mustOK(t, err)
	before, err := db.Begin(ReadOnly)
	mustOK(t, err)
	slotBefore := before.state.slot
	flushKey(t, db, "key")
	before.Discard()
	between.do = func() {
		flushKey(t, db, "key")
		mergeAll(t, db)
	}
	slot, state := holdTables(t, db)
	if slot != slotBefore {
		t.Fatal("it has another slot")
	}
	if kept := tablesKept(db); len(state) != 1 || !slices.Contains(kept, state[0]) {
		t.Errorf("tables %d are kept for who has a state with %d", kept, state)
	}
	db.release(slot)
	if kept := tablesKept(db); len(kept) != 0 {
		t.Errorf("tables %d are kept for nobody", kept)
	}
	mustOK(t, db.Close())
}

// checkBeside checks a database of one table, and does something meanwhile.
func checkBeside(t *testing.T, db *DB, do func()) {
	t.Helper()
	times := 0
	_, err := db.Check(t.Context(), CheckOptions{Progress: func(CheckProgress) { times++; do() }})
	mustOK(t, err)
	if times != 1 {
		t.Fatalf("the check read %d files", times)
	}
}

// wantEntries demands that there are so many versions in tables.
func wantEntries(t *testing.T, db *DB, want uint64) {
	t.Helper()
	got := uint64(0)
	for _, tables := range db.manifest.State().Version.Levels {
		for _, table := range tables {
			got += table.Entries
		}
	}
	if got != want {
		t.Errorf("%d versions are in tables, want %d", got, want)
	}
}

// To check a large database takes long, and needs its files alone.
func TestACheckKeepsNoVersionsAndNoMemtables(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	flushKey(t, db, "key")
	checkBeside(t, db, func() {
		flushKey(t, db, "key")
		mergeAll(t, db)
		wantEntries(t, db, 1)
		if kept := tablesKept(db); len(kept) != 1 {
			t.Errorf("tables %d are kept, want the one that is checked", kept)
		}
		if kept := db.garbage.memtableBytes.Load(); kept != 0 {
			t.Errorf("%d bytes of memtables are kept", kept)
		}
	})
	if kept := tablesKept(db); len(kept) != 0 {
		t.Errorf("tables %d are kept for nobody", kept)
	}
}

func TestValuesExpireBesideACheck(t *testing.T) {
	t.Parallel()
	clock := clockAt(1000)
	db := openStillWith(t, &Options{FS: memfs.New(), Clock: clock})
	mustOK(t, db.Update(func(tx *Txn) error {
		return tx.Set([]byte("key"), nil, ExpiresAt(time.UnixMilli(2000)))
	}))
	mustOK(t, db.rotate())
	_, err := db.flushNext()
	mustOK(t, err)
	checkBeside(t, db, func() {
		clock.ms.Store(3000)
		flushKey(t, db, "other")
		mergeAll(t, db)
		wantEntries(t, db, 1)
	})
}

// A goroutine that ends the transaction of a View may still be at work when the
// View returns.
func TestStaleHandles_StateThatAnotherCallHasEndedServesNoLaterView(t *testing.T) {
	t.Parallel()
	db := openStill(t) // all Views on one goroutine have the same slot
	state := func(fn func(tx *Txn)) (s *txnState) {
		mustOK(t, db.View(func(tx *Txn) error {
			s = tx.state
			fn(tx)
			return nil
		}))
		return s
	}
	first := state(func(*Txn) {})
	ended := state((*Txn).Discard)
	written := state(func(tx *Txn) { tx.state.decoded.Alloc(1) })
	last := state(func(*Txn) {})
	if first != ended || ended == written || written == last {
		t.Errorf("states %p, %p, %p and %p: want three, the first one twice", first, ended, written, last)
	}
}

// Nobody may open it for writing again, and so delete what it has left.
func TestCloseDeletesWhatItsLastReadersKept(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := openDriven("/db", &Options{FS: disk}, still{}) // nobody sweeps
	mustOK(t, err)
	flushKey(t, db, "key")
	reader, err := db.Begin(ReadOnly)
	mustOK(t, err)
	flushKey(t, db, "key")
	mergeAll(t, db)
	reader.Discard()
	mustOK(t, db.Close())
	copied, err := Open("/db", &Options{FS: disk, ReadOnly: true})
	mustOK(t, err)
	report, err := copied.Check(t.Context(), CheckOptions{})
	mustOK(t, err)
	if len(report.Warnings) > 0 {
		t.Errorf("after an orderly end there are %q", report.Warnings)
	}
	mustOK(t, copied.Close())
}
