package steps

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// keepGarbage returns a database without goroutines, and a transaction that keeps
// a memtable and a table from going.
func keepGarbage(t *testing.T, disk *memfs.FS) (*inside.DB, stoat.Txn) {
	t.Helper()
	db := openStillOn(t, disk)
	flush := func() {
		t.Helper()
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }); err != nil {
			t.Fatal(err)
		}
		mustFlush(t, db)
	}
	flush()
	tx, err := db.Begin(stoat.ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	flush()
	for due := true; due; {
		if due, err = db.Engine.Jobs.Tidy(work.Idle); err != nil {
			t.Fatal(err)
		}
	}
	if tables, memtables := len(tablesKept(t, db)), db.Engine.Store.ObsoleteMemtableBytes(); tables != 1 || memtables == 0 {
		t.Fatalf("%d tables and %d bytes of memtables are kept, want a table and a memtable", tables, memtables)
	}
	return db, tx
}

// A long transaction keeps garbage. Those that begin and end beside it are not
// the ones that the sweeper waits for.
func TestSweep_OnlyATransactionThatKeepsGarbageWakesTheSweeper(t *testing.T) {
	t.Parallel()
	db, long := keepGarbage(t, memfs.New())
	db.Woken(db.Engine.Workers.Sweeper)
	for range 100 {
		if err := db.View(func(stoat.Txn) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if db.Woken(db.Engine.Workers.Sweeper) {
		t.Error("transactions that keep nothing wake the sweeper")
	}
	long.Discard()
	if !db.Woken(db.Engine.Workers.Sweeper) {
		t.Error("the transaction that kept garbage has ended, and the sweeper is not told")
	}
	if db.Engine.Store.Sweep(); !db.Engine.Store.ObsoleteEmpty() {
		t.Error("something obsolete is left")
	}
}

// Of several transactions that keep the same garbage one after the other is
// waited for, in whichever order they end.
func TestSweep_GarbageOfSeveralTransactionsGoesWithTheLastOfThem(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		db := openStill(t)
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) }); err != nil {
			t.Fatal(err)
		}
		var readers [3]stoat.Txn
		for i := range readers {
			var err error
			if readers[i], err = db.Begin(stoat.ReadOnly); err != nil {
				t.Fatal(err)
			}
		}
		mustFlush(t, db)
		for n, i := range order {
			if db.Engine.Store.ObsoleteEmpty() {
				t.Errorf("order %d: it is gone when %d transactions of 3 have ended", order, n)
			}
			readers[i].Discard()
			if db.Woken(db.Engine.Workers.Sweeper) {
				db.Engine.Store.Sweep()
			}
		}
		if !db.Engine.Store.ObsoleteEmpty() {
			t.Errorf("order %d: it is left when all transactions have ended", order)
		}
	}
}

// Deleting a large file may take a device long. Only the sweeper waits for that.
func TestSweep_NeitherStatsNorFlushesWaitForTheDeletionOfFiles(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, tx := keepGarbage(t, disk)
	deleting, goOn, done := make(chan bool), make(chan bool), make(chan bool)
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpRemove && strings.HasSuffix(op.Path, ".table") {
			deleting <- true
			<-goOn
		}
	})
	tx.Discard()
	go func() { db.Engine.Store.Sweep(); close(done) }()
	<-deleting
	db.Stats()
	db.Engine.Store.Discard(nil) // as a flush does
	disk.SetHook(nil)
	close(goOn)
	<-done
}

// asking is a handler of a logger that looks at the database before it answers.
type asking struct {
	slog.Handler
	look func()
}

func (a asking) Enabled(context.Context, slog.Level) bool {
	a.look()
	return false
}

func TestLogger_MayUseTheDatabaseWhenItIsAsked(t *testing.T) {
	t.Parallel()
	var db *inside.DB
	opened, asked := make(chan bool), make(chan bool, 1000)
	var err error
	db, err = inside.Open("/db", &stoat.Options{FS: memfs.New(), Logger: slog.New(asking{slog.DiscardHandler, func() {
		<-opened
		db.Stats()
		if err := db.Update(func(tx stoat.Txn) error {
			return tx.SetReader([]byte("asked"), strings.NewReader(strings.Repeat("x", int(commit.ApartMin(db.Engine.Transactions.MemtableSize)))))
		}); err == nil {
			asked <- true
		}
	}})}, work.Executor{})
	if err != nil {
		t.Fatal(err)
	}
	close(opened)
	if err := db.Update(func(tx stoat.Txn) error {
		return tx.SetReader([]byte("key"), strings.NewReader(strings.Repeat("x", int(commit.ApartMin(db.Engine.Transactions.MemtableSize)))))
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("it hangs")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// A job keeps all files that it knows from its begin on, also those that are dropped
// meanwhile.
func TestSweep_DropAndCompactWaitForJobsThatKeepFiles(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(db *inside.DB, begin func(sync.Locker) (end func())) error{
		"DropPrefix, a merge": func(db *inside.DB, begin func(sync.Locker) (end func())) error {
			collected := begin(db.Engine.Collector.Collecting)
			time.AfterFunc(time.Second, func() {
				merged := begin(db.Engine.Jobs.Compacting)
				collected()
				time.AfterFunc(time.Second, merged)
			})
			return db.DropPrefix(context.Background(), []byte("1"))
		},
		"Compact, a collection": func(db *inside.DB, begin func(sync.Locker) (end func())) error {
			time.AfterFunc(time.Second, begin(db.Engine.Collector.Collecting))
			return db.Compact(context.Background(), stoat.CompactOptions{Lower: []byte("1"), Upper: []byte("2")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := inside.Open("db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20}, work.Executor{})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second hides the first
					if err := errors.Join(db.Update(func(tx stoat.Txn) error {
						return errors.Join(tx.Set([]byte("1"), make([]byte, 40<<10)), tx.Set([]byte("2"), make([]byte, 40<<10)))
					}), db.Engine.Commits.FlushAll(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				err = free(db, func(job sync.Locker) func() { return beginJob(db, job) })
				if err != nil {
					t.Error(err)
				}
				if s := db.Stats(); s.GarbageFiles != 0 {
					t.Errorf("%d files of garbage are left", s.GarbageFiles)
				}
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// beginJob begins a job that keeps the files of this moment until end is called. It
// has a goroutine of its own, because locks are ranked by goroutine.
func beginJob(db *inside.DB, job sync.Locker) (end func()) {
	begun, ending, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		job.Lock()
		defer job.Unlock()
		slot, _, err := db.Engine.Store.HoldFiles()
		if err != nil {
			panic(err)
		}
		defer db.Engine.Store.Release(slot)
		close(begun)
		<-ending
	}()
	<-begun
	return func() { close(ending); <-ended }
}
