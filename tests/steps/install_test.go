package steps

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Commits that write values apart, flushes and Close wait for a job that installs.
func TestInstall_OthersInstallWhileNewTablesAreLoaded(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	var loads, held atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Category != vfs.CatTable || op.Kind != vfs.OpPopulate && op.Kind != vfs.OpOpen {
			return
		}
		loads.Add(1)
		installed := make(chan error, 1)
		go func() { installed <- db.Engine.Store.Install(manifest.Edit{}, nil) }()
		select {
		case err := <-installed:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			held.Add(1)
		}
	})
	flushSome(t, db)
	disk.Observe(nil)
	if loads.Load() == 0 || held.Load() > 0 {
		t.Errorf("of %d accesses to a new table %d were made while an edit was being installed", loads.Load(), held.Load())
	}
}

// openReaders returns how many readers of tables and value files are open.
func openReaders(db *inside.DB) int { return len(db.Engine.Store.Files().Residents(nil)) }

func TestInstall_ATableThatCouldNotBeInstalledIsNotKeptOpen(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	flushSome(t, db)
	before := openReaders(db)
	rule := disk.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: 1, Err: vfs.ErrTooManyFiles})
	setValue(t, db, "key", "value")
	testkit.Must(t, db.Engine.Commits.Rotate(true))
	if _, err := db.Engine.Jobs.FlushNext(); !errors.Is(err, vfs.ErrTooManyFiles) || rule.Fired() == 0 {
		t.Fatalf("the flush did not fail: %v", err)
	}
	if after := openReaders(db); after != before {
		t.Errorf("%d tables are open, want %d", after, before)
	}
}

func TestInstall_AValueFileThatCouldNotBeInstalledIsNotKeptOpen(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	testkit.Must(t, leaveGarbage(db, "key"))
	readAll := func() {
		t.Helper()
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for n := range 40 {
				if _, err := tx.Get(fmt.Appendf(nil, "key-%02d", n)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	readAll()
	before := openReaders(db)
	var populated atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Category == vfs.CatValue && op.Kind == vfs.OpPopulate {
			populated.Add(1)
		}
	})
	rule := disk.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: 1, Err: vfs.ErrTooManyFiles})
	if _, err := db.Engine.Collector.Tidy(false, new(collect.LiveSet)); !errors.Is(err, vfs.ErrTooManyFiles) || rule.Fired() == 0 {
		t.Fatalf("the collection did not fail: %v", err)
	}
	if populated.Load() == 0 {
		t.Fatal("the new file was not brought into memory")
	}
	if after := openReaders(db); after != before {
		t.Errorf("%d files are open, want %d", after, before)
	}
	disk.Observe(nil)
	readAll()
}

func TestInstall_MemoryOfReadersIsNotForThePagesOfNewTables(t *testing.T) {
	t.Parallel()
	measured := openBeforeFlush(t, 256<<20).memory()
	for _, room := range []struct {
		part   int64 // of what readers take, in the budget
		loaded bool
	}{{2, true}, {0, false}} {
		// A quarter of it, which pages have in any case, is too little for both tables.
		budget := measured.pages + measured.memtables + room.part*measured.readers
		f := openBeforeFlush(t, budget)
		if got := f.memory(); got != measured {
			t.Fatalf("the memory is %+v, and was %+v with a larger budget", got, measured)
		}
		f.flush()
		if after := openReaders(f.db); after > 1 != room.loaded {
			t.Errorf("%d tables are open with a budget for %d times what readers take", after, room.part)
		}
	}
}

// A beforeFlush is a database with one table in memory, and a memtable that waits to
// become another of the same size.
type beforeFlush struct {
	t  *testing.T
	db *inside.DB
}

func openBeforeFlush(t *testing.T, budget int64) *beforeFlush {
	t.Helper()
	f := &beforeFlush{t, openStillWith(t, &stoat.Options{FS: memfs.New(), MemtableSize: 32 << 20, MemoryBudget: budget})}
	f.fill()
	f.flush()
	f.fill()
	return f
}

func (f *beforeFlush) fill() {
	f.t.Helper()
	testkit.Must(f.t, f.db.Update(func(tx stoat.Txn) (err error) {
		for i := 0; i < 1500 && err == nil; i++ {
			err = tx.Set(fmt.Appendf(nil, "key%d", i), []byte(strings.Repeat("v", 400)))
		}
		return err
	}))
	testkit.Must(f.t, f.db.Engine.Commits.Rotate(true))
}

func (f *beforeFlush) flush() {
	f.t.Helper()
	due, err := f.db.Engine.Jobs.FlushNext()
	if testkit.Must(f.t, err); !due {
		f.t.Fatal("nothing was flushed")
	}
}

// A memoryUse is what a database takes of its budget, in bytes: memtables and what
// is kept for them, readers, and the pages of the table and of the next one.
type memoryUse struct{ memtables, readers, pages int64 }

func (f *beforeFlush) memory() memoryUse {
	f.t.Helper()
	s := f.db.Engine.Store
	open := s.Files().Residents(nil)
	m := memoryUse{memtables: s.MemtableBytes() + s.ObsoleteMemtableBytes() + s.Memory.Kept(), readers: s.ReaderBytes(nil)}
	if len(open) != 1 || m.readers < 64 {
		f.t.Fatalf("%d tables are open, and their readers take %d bytes", len(open), m.readers)
	}
	m.pages = open[0].Gauge().Bytes() + s.Version().Levels[0][0].Size
	return m
}

// setValue commits one value.
func setValue(t *testing.T, db *inside.DB, key, value string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte(value)) }))
}

// Another job may close files that are not read any more. A table that is loaded must stay.
func TestInstall_FilesStayOpenWhileNewTablesAreLoaded(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db := openStillOn(t, disk)
	db.Engine.Governor.OpenMax = 0
	loads := 0
	disk.Observe(func(op vfs.Op) {
		if op.Category != vfs.CatTable || op.Kind != vfs.OpPopulate {
			return
		}
		if openReaders(db) == 0 {
			return // it is still being opened
		}
		loads++
		mustRound(t, db, false)
		db.Engine.Store.Sweep()
		if !db.Engine.Store.HasRetired() {
			t.Error("a file was closed while it was loaded")
		}
	})
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 100)) }))
	mustFlush(t, db)
	disk.Observe(nil)
	if loads == 0 {
		t.Error("no table was loaded")
	}
	testkit.Must(t, db.Close())
}
