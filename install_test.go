package stoat

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Commits that write values apart, flushes and Close wait for who installs.
func TestNobodyWaitsWhileNewTablesAreLoaded(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	var loads, held atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Category != vfs.CatTable || op.Kind != vfs.OpPopulate && op.Kind != vfs.OpOpen {
			return
		}
		loads.Add(1)
		if !db.installing.TryLock() {
			held.Add(1)
			return
		}
		db.installing.Unlock()
	})
	flushSome(t, db)
	if loads.Load() == 0 || held.Load() > 0 {
		t.Errorf("of %d accesses to a new table %d were made while an edit was being installed", loads.Load(), held.Load())
	}
}

func TestATableThatCouldNotBeInstalledIsNotKeptOpen(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	flushSome(t, db)
	before := len(db.tables.Residents(nil))
	rule := disk.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: 1, Err: vfs.ErrNoSpace})
	set(t, db, "key", "value")
	if err := db.rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.flushNext(); !errors.Is(err, vfs.ErrNoSpace) || rule.Fired() == 0 {
		t.Fatalf("the flush did not fail: %v", err)
	}
	if after := len(db.tables.Residents(nil)); after != before {
		t.Errorf("%d tables are open, want %d", after, before)
	}
}

func TestAValueFileThatCouldNotBeInstalledIsNotKeptOpen(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	if err := leaveGarbage(db, "key"); err != nil {
		t.Fatal(err)
	}
	readAll := func() {
		t.Helper()
		if err := db.View(func(tx *Txn) error {
			for n := range 40 {
				if _, err := tx.Get(fmt.Appendf(nil, "key-%02d", n)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	readAll()
	before := len(db.tables.Residents(nil))
	var populated atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Category == vfs.CatValue && op.Kind == vfs.OpPopulate {
			populated.Add(1)
		}
	})
	rule := disk.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: 1, Err: vfs.ErrNoSpace})
	if err := db.collectStep(); !errors.Is(err, vfs.ErrNoSpace) || rule.Fired() == 0 {
		t.Fatalf("the collection did not fail: %v", err)
	}
	if populated.Load() == 0 {
		t.Fatal("the new file was not brought into memory")
	}
	if after := len(db.tables.Residents(nil)); after != before {
		t.Errorf("%d files are open, want %d", after, before)
	}
	disk.Observe(nil)
	readAll()
}

func TestWhatReadersTakeOfTheBudgetIsNotForThePagesOfNewTables(t *testing.T) {
	t.Parallel()
	for _, room := range []struct {
		part   int64 // of what readers take, in the budget
		loaded bool
	}{{2, true}, {0, false}} {
		db := openStill(t)
		// Tables that are large enough beside memtables for a quarter of the
		// budget, which pages have in any case, to be too little.
		fill := func() {
			for i := range 400 {
				set(t, db, fmt.Sprintf("key%d", i), strings.Repeat("v", 400))
			}
			if err := db.rotate(); err != nil {
				t.Fatal(err)
			}
		}
		fill()
		if due, err := db.flushNext(); err != nil || !due {
			t.Fatal(due, err)
		}
		before := db.tables.Residents(nil)
		if len(before) != 1 || db.readersBytes() < 64 {
			t.Fatalf("%d tables are open, and their readers take %d bytes", len(before), db.readersBytes())
		}
		fill()
		pages := before[0].Gauge().Bytes() + db.manifest.State().Version.Levels[0][0].Size
		db.opts.MemoryBudget = pages + room.part*db.readersBytes() + db.memtableBytes() + db.memory.idle()
		if due, err := db.flushNext(); err != nil || !due {
			t.Fatal(due, err)
		}
		if after := len(db.tables.Residents(nil)); after > 1 != room.loaded {
			t.Errorf("%d tables are open with a budget for %d times what readers take", after, room.part)
		}
	}
}

// set commits one value.
func set(t *testing.T, db *DB, key, value string) {
	t.Helper()
	if err := db.Update(func(tx *Txn) error { return tx.Set([]byte(key), []byte(value)) }); err != nil {
		t.Fatal(err)
	}
}
