package behaviour

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A program copies a keyspace by a buffered commit, and then drops the original. A power cut
// at any call of the drop leaves one of the two.
func TestDropKeyspace_IsNeverKeptWithoutAnEarlierCommit(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := moved(t, disk)
	var disks []*memfs.FS
	disk.SetHook(func(vfs.Op) { disks = append(disks, disk.CrashKeeping(func(int) bool { return false })) })
	testkit.Must(t, db.DropKeyspace("old"))
	disk.SetHook(nil)
	testkit.Must(t, db.Close())
	for i, disk := range disks {
		wantOneOfBoth(t, i, disk, testkit.Dir)
	}
}

// The device fails at any sync of the drop, and loses what the sync was for.
func TestDropKeyspace_IsNotKeptByAFailingDeviceThatLosesAnEarlierCommit(t *testing.T) {
	t.Parallel()
	for nth := int64(1); ; nth++ {
		disk := memfs.New()
		faulty := faultfs.New(disk)
		db := moved(t, faulty)
		fault := faulty.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatLog, Nth: nth, Sync: vfs.SyncDropped})
		err := db.DropKeyspace("old")
		faulty.Clear()
		if e := db.Close(); e != nil && !errors.Is(e, stoat.ErrFailed) {
			t.Fatal(e)
		}
		if fault.Fired() == 0 {
			testkit.Must(t, err)
			break
		}
		wantOneOfBoth(t, int(nth), disk.CrashKeeping(func(int) bool { return false }), testkit.Dir)
	}
}

// A program copies a keyspace and drops the original while the flush of a checkpoint runs.
func TestDropKeyspace_IsInNoCheckpointWithoutAnEarlierCommit(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faulty := faultfs.New(disk)
	db, before, after := original(t, faulty)
	var flushing atomic.Bool
	faulty.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate && op.Category == vfs.CatTable && flushing.CompareAndSwap(false, true) {
			if err := errors.Join(move(db, before, after), db.DropKeyspace("old")); err != nil {
				t.Error(err)
			}
		}
	})
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	faulty.Observe(nil)
	if !flushing.Load() {
		t.Fatal("the checkpoint has flushed nothing")
	}
	testkit.Must(t, db.Close())
	wantOneOfBoth(t, 0, disk, testkit.CopyDir)
}

// A program copies a keyspace and drops the original after a follower has read the log, and
// before the follower reads the manifest.
func TestDropKeyspace_IsNotShownByAFollowerWithoutAnEarlierCommit(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, before, after := original(t, disk)
	defer func() { testkit.Must(t, db.Close()) }()
	faulty := faultfs.New(disk)
	f := follow(t, faulty)
	var moved atomic.Bool
	faulty.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatManifest && moved.CompareAndSwap(false, true) {
			if err := errors.Join(move(db, before, after), db.DropKeyspace("old")); err != nil {
				t.Error(err)
			}
		}
	})
	testkit.Must(t, f.Refresh(t.Context()))
	faulty.Observe(nil)
	if !moved.Load() {
		t.Fatal("the follower has not read the manifest")
	}
	if !hasOneOfBoth(t, f) {
		t.Error("a follower shows the drop, and not an earlier commit")
	}
}

// A program copies a keyspace and drops the original while a follower lags far behind.
func TestDropKeyspace_IsNotShownByALateFollowerWithoutAnEarlierCommit(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, before, after := original(t, disk)
	defer func() { testkit.Must(t, db.Close()) }()
	faulty := faultfs.New(disk)
	f := follow(t, faulty)
	for i := range 60 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 100_000)) }, stoat.WithDurability(stoat.Buffered)))
	}
	testkit.Must(t, errors.Join(move(db, before, after), db.DropKeyspace("old")))
	looks := 0
	faulty.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatLog {
			if looks++; !hasOneOfBoth(t, f) {
				t.Error("a follower shows the drop, and not an earlier commit")
			}
		}
	})
	testkit.Must(t, f.Refresh(t.Context()))
	faulty.Observe(nil)
	if looks == 0 {
		t.Fatal("the follower has not read the log")
	}
}

// moved returns a database with a key in a keyspace that is durable, and with a copy of it in
// another keyspace that is not.
func moved(t *testing.T, fs vfs.FS) *stoat.DB {
	t.Helper()
	db, before, after := original(t, fs)
	testkit.Must(t, move(db, before, after))
	return db
}

// original returns a database with a key in a keyspace that is durable, and another keyspace.
func original(t *testing.T, fs vfs.FS) (db *stoat.DB, before, after *stoat.Keyspace) {
	t.Helper()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
	testkit.Must(t, err)
	before, err = db.Keyspace("old", nil)
	testkit.Must(t, err)
	after, err = db.Keyspace("new", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(before).Set([]byte("k"), []byte("v")) }))
	return db, before, after
}

// move copies the key by a commit that is not durable.
func move(db *stoat.DB, before, after *stoat.Keyspace) error {
	return db.Update(func(tx stoat.Txn) error {
		v, err := tx.In(before).Get([]byte("k"))
		if err != nil {
			return err
		}
		return tx.In(after).Set([]byte("k"), v)
	}, stoat.WithDurability(stoat.Buffered))
}

func wantOneOfBoth(t *testing.T, i int, disk *memfs.FS, dir string) {
	t.Helper()
	db, err := stoat.Open(dir, &stoat.Options{FS: disk, MustExist: true})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	if !hasOneOfBoth(t, db) {
		t.Errorf("case %d: the drop is there, and an earlier commit is not", i)
	}
}

// hasOneOfBoth reports whether any keyspace has the key.
func hasOneOfBoth(t *testing.T, db *stoat.DB) (has bool) {
	t.Helper()
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	for _, info := range all[1:] {
		ks := keyspace(t, db, info.Name)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			found, err := tx.In(ks).Has([]byte("k"))
			has = has || found
			return err
		}))
	}
	return has
}
