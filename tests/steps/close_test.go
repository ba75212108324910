package steps

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An askedFS counts how often the database asks how much of the disk is free. It
// calls asking, if that is set, before it answers.
type askedFS struct {
	vfs.FS
	asked  atomic.Int64
	asking func()
}

func (f *askedFS) Free(dir string) (uint64, error) {
	f.asked.Add(1)
	if f.asking != nil {
		f.asking()
	}
	return f.FS.Free(dir)
}

// A commit may still look for room when Close has ended and the last reader ends,
// which gives everything back. That reader must not look for room itself, nor wait
// for the commit.
func TestClose_TheLastReaderMayEndWhileACommitLooksForRoom(t *testing.T) {
	t.Parallel()
	inner := memfs.New()
	disk := &askedFS{FS: inner}
	db := openStillOn(t, disk)
	flushKey(t, db, "key")
	tx, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	flushKey(t, db, "key") // the reader keeps a memtable
	inner.SetCapacity(inner.UsedBytes() + 64<<10)
	if db.Engine.Space.Look(); !db.Engine.Space.Scarce() {
		t.Fatal("the disk is not low")
	}
	testkit.Must(t, db.Close())
	looking, look := make(chan bool), make(chan bool)
	disk.asking = func() { looking <- true; <-look }
	looked := make(chan bool)
	go func() { db.Engine.Space.Look(); close(looked) }()
	<-looking
	asked := disk.asked.Load()
	done := make(chan bool)
	go func() { tx.Discard(); close(done) }()
	select {
	case <-done:
	case <-looking:
		t.Error("a database that is closed asks how much of the disk is free")
		look <- true
	case <-time.After(time.Minute):
		t.Error("it hangs")
	}
	look <- true
	<-looked
	<-done
	if n := db.Engine.Store.Memory.Taken(); n != 0 {
		t.Errorf("%d bytes of memory have not been given back", n)
	}
	if n := disk.asked.Load() - asked; n != 0 {
		t.Errorf("a database that is closed asked %d times how much of the disk is free", n)
	}
}

// A fullFS says that nothing is free while it is full, although writes succeed.
type fullFS struct {
	vfs.FS
	full atomic.Bool
}

func (f *fullFS) Free(dir string) (uint64, error) {
	if f.full.Load() {
		return 0, nil
	}
	return f.FS.Free(dir)
}

func TestClose_WaitsForTheCallbackOfACommitThatLooksForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := &fullFS{FS: memfs.New()}
		db, err := inside.Open(testkit.Dir, &stoat.Options{FS: disk}, work.Executor{})
		testkit.Must(t, err)
		defer db.Engine.Space.Step()() // a job that may free something
		disk.full.Store(true)
		if db.Engine.Space.Look(); !db.Engine.Space.Scarce() {
			t.Fatal("the disk is not low")
		}
		tx, err := db.Begin(stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Set([]byte("key"), []byte("value")))
		var called atomic.Bool
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			tx.CommitAsync(func(uint64, error) {
				time.Sleep(time.Minute)
				called.Store(true)
			})
		}()
		synctest.Wait()
		select {
		case <-returned:
			t.Fatal("CommitAsync does not wait for room")
		default:
		}
		disk.full.Store(false)
		testkit.Must(t, db.Close())
		if !called.Load() {
			t.Error("the callback comes after Close")
		}
		<-returned
	})
}

// A heldContext answers only once hold is closed, if it is not nil.
type heldContext struct {
	context.Context
	hold chan struct{}
}

func (c *heldContext) Err() error {
	if c.hold != nil {
		<-c.hold
	}
	return c.Context.Err()
}

func TestClose_WaitsForTheCallbackOfACommitThatHasHardlyBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openStill(t)
		ctx := &heldContext{Context: t.Context()}
		tx, err := db.BeginContext(ctx, stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Set([]byte("key"), []byte("value")))
		ctx.hold = make(chan struct{})
		var closed, called atomic.Bool
		go tx.CommitAsync(func(_ uint64, err error) {
			testkit.WantError(t, "the commit", err, stoat.ErrClosed)
			if closed.Load() {
				t.Error("the callback comes after Close")
			}
			called.Store(true)
		})
		synctest.Wait()
		go func() {
			testkit.Must(t, db.Close())
			closed.Store(true)
		}()
		synctest.Wait()
		close(ctx.hold)
		synctest.Wait()
		if !called.Load() || !closed.Load() {
			t.Errorf("the callback was called: %t, the database is closed: %t", called.Load(), closed.Load())
		}
	})
}

// makeScarce leaves so little room on the disk of db that each commit asks how much is free.
func makeScarce(t *testing.T, db *inside.DB, disk *memfs.FS) {
	t.Helper()
	disk.SetCapacity(disk.UsedBytes() + 64<<10)
	if db.Engine.Space.Look(); !db.Engine.Space.Scarce() {
		t.Fatal("the disk is not low")
	}
}

// The caller of a commit may recover from a panic in its file system, as a server does.
func TestClose_DoesNotWaitForACommitThatEndedInAPanic(t *testing.T) {
	t.Parallel()
	for _, end := range []func(){func() { panic("in Free") }, runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) {
			inner := memfs.New()
			disk := &askedFS{FS: inner}
			db := openStillOn(t, disk)
			tx, err := db.Begin(stoat.ReadWrite)
			testkit.Must(t, err)
			_, err = tx.Get([]byte("key")) // so the commit keeps its snapshot
			testkit.WantError(t, "the key", err, stoat.ErrNotFound)
			testkit.Must(t, tx.Set([]byte("key"), []byte("value")))
			makeScarce(t, db, inner)
			disk.asking = end
			go func() {
				defer func() { _ = recover() }()
				tx.CommitAsync(func(uint64, error) { t.Error("the callback comes") })
				t.Error("CommitAsync returns")
			}()
			synctest.Wait()
			disk.asking = nil
			if n := db.Engine.Store.Readers(); n != 0 {
				t.Errorf("%d snapshots are left", n)
			}
			testkit.Must(t, db.Close())
		})
	}
}

// The caller of a batch may recover from it as well, and then discards the batch.
func TestBatch_HasEndedOnceTheCommitOfAPieceHasEndedInAPanic(t *testing.T) {
	t.Parallel()
	for _, end := range []func(){func() { panic("in Free") }, runtime.Goexit} {
		synctest.Test(t, func(t *testing.T) { // where a Discard that waits for ever is an error at once
			inner := memfs.New()
			disk := &askedFS{FS: inner}
			db := openStillOn(t, disk)
			b := db.NewBatch(stoat.BatchOptions{Size: 1, Pieces: true}) // each write is a piece
			testkit.Must(t, b.Set([]byte("lost"), nil))
			makeScarce(t, db, inner)
			disk.asking = end
			go func() {
				defer func() { _ = recover() }()
				_ = b.Set([]byte("next"), nil)
				t.Error("Set returns")
			}()
			synctest.Wait()
			disk.asking = nil
			if err := b.Set([]byte("next"), nil); err == nil {
				t.Fatal("the batch takes another write, although it has lost a piece")
			}
			if err := b.Commit(); err == nil {
				t.Error("the batch commits, although it has lost a piece")
			}
			b.Discard()
			if n := db.Engine.Store.Readers(); n != 0 {
				t.Errorf("%d slots are left", n)
			}
			testkit.Must(t, db.Close())
		})
	}
}

// A panickyFS panics where it is to create a value file.
type panickyFS struct {
	vfs.FS
	panics bool
}

func (f *panickyFS) Create(name string, cat vfs.Category) (vfs.File, error) {
	if f.panics && cat == vfs.CatValue {
		panic("in Create")
	}
	return f.FS.Create(name, cat)
}

func TestCommit_ThatEndsInAPanicGivesItsRoomBack(t *testing.T) {
	t.Parallel()
	inner := memfs.New()
	disk := &panickyFS{FS: inner}
	db := openStillOn(t, disk)
	large := func(tx stoat.Txn) error { return tx.Set([]byte("key"), make([]byte, 3<<20)) }
	inner.SetCapacity(inner.UsedBytes() + 10<<20) // a commit is promised twice its value
	db.Engine.Space.Look()
	disk.panics = true
	func() {
		defer func() {
			if p := recover(); p != "in Create" {
				t.Errorf("the commit panics with %v", p)
			}
		}()
		_ = db.Update(large)
	}()
	disk.panics = false
	testkit.Must(t, db.Update(large))
}

func TestClose_NoEventComesAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		var closed atomic.Bool
		db := openStillWith(t, &stoat.Options{FS: disk, Events: func(e stoat.Event) {
			if closed.Load() {
				t.Errorf("%T after Close", e)
			}
		}})
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }))
		tx, err := db.Begin(stoat.ReadOnly)
		testkit.Must(t, err)
		disk.SetCapacity(disk.UsedBytes() + 64<<10)
		if db.Engine.Space.Look(); !db.Engine.Space.Scarce() {
			t.Fatal("the disk is not low")
		}
		testkit.Must(t, db.Close())
		closed.Store(true)
		disk.SetCapacity(1 << 40)
		tx.Discard()
		db.Engine.Space.Look() // as a commit does that was waiting for room
		synctest.Wait()
	})
}

// A long value is read by parts, each from the file. When the database is closed,
// that may be gone, or belong to another database.
func TestClose_AReaderOfAValueEndsWithErrClosed(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		disk := memfs.New()
		db := openStillOn(t, disk)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, key := range []string{"read", "unread"} {
				if err := tx.SetReader([]byte(key), strings.NewReader(strings.Repeat("x", 4<<20))); err != nil {
					return err
				}
			}
			return nil
		}))
		tx, err := db.Begin(stoat.ReadOnly)
		testkit.Must(t, err)
		read, err := tx.GetItem([]byte("read"))
		testkit.Must(t, err)
		unread, err := tx.GetItem([]byte("unread"))
		testkit.Must(t, err)
		r, err := read.Reader()
		testkit.Must(t, err)
		_, err = r.Read(make([]byte, 1))
		testkit.Must(t, err)
		_, err = r.Seek(3<<20, io.SeekStart)
		testkit.Must(t, err)
		testkit.Must(t, db.Close())
		names, err := disk.List("/db")
		testkit.Must(t, err)
		for _, name := range names {
			if _, ok := base.ParseValueName(name); ok && gone {
				testkit.Must(t, disk.Remove(disk.Join("/db", name)))
			}
		}
		if _, err := r.Seek(0, io.SeekStart); !errors.Is(err, stoat.ErrClosed) {
			t.Errorf("files gone %t: Seek: %v", gone, err)
		}
		if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, stoat.ErrClosed) || errors.Is(err, stoat.ErrCorrupt) {
			t.Errorf("files gone %t: reading on: %d bytes, %v", gone, n, err)
		}
		if _, err := unread.Reader(); !errors.Is(err, stoat.ErrClosed) || errors.Is(err, stoat.ErrCorrupt) {
			t.Errorf("files gone %t: Reader: %v", gone, err)
		}
		if _, err := unread.Value(); !errors.Is(err, stoat.ErrClosed) || errors.Is(err, stoat.ErrCorrupt) {
			t.Errorf("files gone %t: Value: %v", gone, err)
		}
		tx.Discard()
	}
}

// A commit whose transaction began before Close may come to its large values after
// Close has ended the background jobs.
func TestLargeCommit_BeginsNoValueFileOnceCloseHasEndedTheJobs(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set([]byte("large"), make([]byte, 2*commit.ApartMin(db.Engine.Transactions.MemtableSize))); err != nil {
		t.Fatal(err)
	}
	db.Engine.Group.End()
	if err := tx.Commit(); !errors.Is(err, stoat.ErrClosed) {
		t.Errorf("commit: %v, want %v", err, stoat.ErrClosed)
	}
	names, err := db.Engine.Store.FS().List(db.Engine.Store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, ok := base.ParseValueName(name); ok {
			t.Errorf("there is %s", name)
		}
	}
}

// Close may interrupt the dropper. That is no failure of the job.
func TestClose_AnInterruptedDropperReportsNoError(t *testing.T) {
	t.Parallel()
	var failures atomic.Int64
	db := openStillWith(t, &stoat.Options{FS: memfs.New(), Events: func(e stoat.Event) {
		if _, ok := e.(stoat.BackgroundError); ok {
			failures.Add(1)
		}
	}})
	ks, err := db.Keyspace("a", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), nil) }))
	mustFlush(t, db)
	testkit.Must(t, db.DropKeyspace("a"))
	db.Engine.Group.End()
	if _, err := db.Engine.Spaces.Step(); err == nil {
		t.Error("the dropper has freed the keyspace although its group has ended")
	}
	testkit.Must(t, db.Close())
	if n := failures.Load(); n > 0 {
		t.Errorf("Close reports %d failures of background jobs", n)
	}
}
