package stoat

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// keepGarbage returns a database that nobody drives, and a transaction that keeps
// a memtable and a table from going.
func keepGarbage(t *testing.T, disk *memfs.FS) (*DB, *Txn) {
	t.Helper()
	db := openStillOn(t, disk)
	flush := func() {
		t.Helper()
		if err := db.Update(func(tx *Txn) error { return tx.Set([]byte("key"), []byte("value")) }); err != nil {
			t.Fatal(err)
		}
		if err := db.rotate(); err != nil {
			t.Fatal(err)
		}
		if _, err := db.flushNext(); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	tx, err := db.Begin(ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	flush()
	for due := true; due; {
		if due, err = db.tidy(idling); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(db.garbage.heap); n != 2 {
		t.Fatalf("%d relics are kept, want a memtable and a table", n)
	}
	return db, tx
}

// A long transaction keeps garbage. Those that begin and end beside it are not
// the ones that the sweeper waits for.
func TestOnlyATransactionThatKeepsGarbageWakesTheSweeper(t *testing.T) {
	t.Parallel()
	db, long := keepGarbage(t, memfs.New())
	woken := func() bool {
		select {
		case <-db.background.sweeper.work:
			return true
		default:
			return false
		}
	}
	woken()
	for range 100 {
		if err := db.View(func(*Txn) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if woken() {
		t.Error("transactions that keep nothing wake the sweeper")
	}
	long.Discard()
	if !woken() {
		t.Error("the transaction that kept garbage has ended, and nobody is told")
	}
	if db.sweep(); len(db.garbage.heap) != 0 {
		t.Errorf("%d pieces of garbage are left", len(db.garbage.heap))
	}
}

// Of several transactions that keep the same garbage one after the other is
// waited for, in whichever order they end.
func TestGarbageOfSeveralTransactionsGoesWithTheLastOfThem(t *testing.T) {
	t.Parallel()
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		db := openStill(t)
		if err := db.Update(func(tx *Txn) error { return tx.Set([]byte("key"), nil) }); err != nil {
			t.Fatal(err)
		}
		var readers [3]*Txn
		for i := range readers {
			var err error
			if readers[i], err = db.Begin(ReadOnly); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.rotate(); err != nil {
			t.Fatal(err)
		}
		if _, err := db.flushNext(); err != nil {
			t.Fatal(err)
		}
		for n, i := range order {
			if len(db.garbage.heap) == 0 {
				t.Errorf("order %d: it is gone when %d transactions of 3 have ended", order, n)
			}
			readers[i].Discard()
			select {
			case <-db.background.sweeper.work:
				db.sweep()
			default:
			}
		}
		if len(db.garbage.heap) != 0 {
			t.Errorf("order %d: it is left when all transactions have ended", order)
		}
	}
}

// To delete a large file may take a device long. Nobody waits for that but who
// does it.
func TestNeitherStatsNorFlushesWaitForTheDeletionOfFiles(t *testing.T) {
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
	go func() { db.sweep(); close(done) }()
	<-deleting
	db.Stats()
	db.discard(nil) // as a flush does
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

func TestALoggerMayUseTheDatabaseWhenItIsAsked(t *testing.T) {
	t.Parallel()
	var db *DB
	opened, asked := make(chan bool), make(chan bool, 1000)
	var err error
	db, err = Open("/db", &Options{FS: memfs.New(), Logger: slog.New(asking{slog.DiscardHandler, func() {
		<-opened
		db.Stats()
		if err := db.Update(func(tx *Txn) error {
			return tx.SetReader([]byte("asked"), strings.NewReader(strings.Repeat("x", apartMin)))
		}); err == nil {
			asked <- true
		}
	}})})
	if err != nil {
		t.Fatal(err)
	}
	close(opened)
	if err := db.Update(func(tx *Txn) error {
		return tx.SetReader([]byte("key"), strings.NewReader(strings.Repeat("x", apartMin)))
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
func TestWhoGivesSpaceBackWaitsForJobsThatKeepIt(t *testing.T) {
	t.Parallel()
	for name, giveBack := range map[string]func(db *DB, begin func(*turn) (end func())) error{
		"DropPrefix, a merge": func(db *DB, begin func(*turn) (end func())) error {
			collected := begin(&db.collecting)
			time.AfterFunc(time.Second, func() {
				merged := begin(&db.compacting)
				collected()
				time.AfterFunc(time.Second, merged)
			})
			return db.DropPrefix(context.Background(), []byte("1"))
		},
		"Compact, a collection": func(db *DB, begin func(*turn) (end func())) error {
			time.AfterFunc(time.Second, begin(&db.collecting))
			return db.Compact(context.Background(), CompactOptions{Lower: []byte("1"), Upper: []byte("2")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, err := Open("db", &Options{FS: memfs.New(), MemtableSize: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 { // the second hides the first
					if err := errors.Join(db.Update(func(tx *Txn) error {
						return errors.Join(tx.Set([]byte("1"), make([]byte, 40<<10)), tx.Set([]byte("2"), make([]byte, 40<<10)))
					}), db.flushAll(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
				err = giveBack(db, func(job *turn) func() {
					job.Lock()
					slot, _, err := db.holdState()
					if err != nil {
						panic(err)
					}
					return func() { db.release(slot); job.Unlock() }
				})
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
