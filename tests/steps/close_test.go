package steps

import (
	"errors"
	"io"
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
