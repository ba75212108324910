package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func commitValue(db *stoat.DB, value string, opts ...stoat.CommitOption) error {
	return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte(value)) }, opts...)
}

// placeInLog returns where in the log a value lies.
func placeInLog(t *testing.T, disk *memfs.FS, value string) (path string, offset int64) {
	t.Helper()
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		path := disk.Join(testkit.Dir, name)
		content, err := testkit.ReadFile(disk, path)
		testkit.Must(t, err)
		if i := bytes.Index(content, []byte(value)); i >= 0 {
			return path, int64(i)
		}
	}
	t.Fatalf("%q is not in the log", value)
	return "", 0
}

// wantNoticed demands that a database whose process died does not open without its
// last commit.
func wantNoticed(t *testing.T, disk *memfs.FS, value, when string) {
	t.Helper()
	disk = disk.Clone()
	path, offset := placeInLog(t, disk, value)
	flipByte(t, disk, path, offset)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	if err == nil {
		testkit.Must(t, db.Close())
	}
	if !errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("%s: the last commit was damaged: %v, want %v", when, err, stoat.ErrCorrupt)
	}
}

// Without a durable mark, a database that is neither written nor closed would lose
// its last commit to a flipped bit, and not report it.
func TestDurableMark_DamageToTheLastCommitIsNoticedAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		for i := range 5 {
			value := fmt.Sprintf("value number %d", i)
			testkit.Must(t, commitValue(db, value))
			pause := time.Second // the pause before may not have ended for the flusher
			if i == 0 {
				pause = 200 * time.Millisecond
			}
			time.Sleep(pause)
			synctest.Wait()
			wantNoticed(t, disk, value, fmt.Sprintf("commit %d", i))
		}
		testkit.Must(t, db.Close())
	})
}

func TestDurableMark_DamageToTheLastCommitIsNoticedAfterSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		testkit.Must(t, commitValue(db, "with its commit"))
		testkit.Must(t, db.Sync())
		wantNoticed(t, disk, "with its commit", "a commit that was synced")
		testkit.Must(t, commitValue(db, "by the next sync", stoat.WithDurability(stoat.Buffered)))
		testkit.Must(t, db.Sync())
		wantNoticed(t, disk, "by the next sync", "a commit that was buffered")
		testkit.Must(t, db.Close())
	})
}

// The frames of a commit are built before the full segment that it waits for is durable. So
// they do not prove that segment, and the commit marks the log when it is synced.
func TestDurableMark_DamageToAFullSegmentIsNoticedAfterTheCommitThatWaitedForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		testkit.Must(t, err)
		const early = "in the segment that becomes full"
		testkit.Must(t, commitValue(db, early, stoat.WithDurability(stoat.Buffered)))
		full, _ := placeInLog(t, disk, early)
		var next atomic.Pointer[string]
		built := make(chan struct{})
		var once sync.Once
		disk.SetHook(func(op vfs.Op) {
			switch path := next.Load(); {
			case op.Kind == vfs.OpSyncData && op.Path == full:
				<-built
			case op.Kind == vfs.OpWrite && path != nil && op.Path == *path:
				once.Do(func() { close(built) })
			}
		})
		const keys = 700
		testkit.SetKeys(t, db, 0, keys, 400, 1) // more than a segment
		path, _ := placeInLog(t, disk, string(testkit.Key(keys-1)))
		if path == full {
			t.Fatal("the first segment is not full")
		}
		next.Store(&path)
		testkit.Must(t, commitValue(db, "synced"))
		disk.SetHook(nil)
		wantNoticed(t, disk, early, "a segment that is full")
		testkit.Must(t, db.Close())
	})
}
