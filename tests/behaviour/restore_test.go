package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A kill ends a restore, also when the database is complete but for its name. The same restore
// goes on, and then the power goes off.
func TestRestore_AfterAKillAndThenAPowerCutIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	var b bytes.Buffer
	_, err := db.Backup(t.Context(), &b, stoat.BackupOptions{})
	testkit.Must(t, err)
	restore := func(disk *memfs.FS) error {
		_, err := stoat.Restore(t.Context(), "/new/db", stoat.RestoreOptions{Options: &stoat.Options{FS: disk}}, bytes.NewReader(b.Bytes()))
		return err
	}
	disk := memfs.New()
	stop := testkit.States(disk)
	testkit.Must(t, restore(disk))
	for i, kill := range stop() {
		killed := kill.Disk
		if _, err := killed.Stat("/new/db"); err == nil {
			continue
		}
		stop := testkit.States(killed)
		testkit.Must(t, restore(killed))
		for j, power := range stop() {
			left := power.Disk.Crash(memfs.KeepNone, nil)
			if _, err := left.Stat("/new/db"); errors.Is(err, vfs.ErrNotExist) {
				continue
			}
			db, err := stoat.Open("/new/db", &stoat.Options{FS: left, MustExist: true})
			if err == nil {
				err = db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("k")); return err })
				testkit.Must(t, db.Close())
			}
			if err != nil {
				t.Fatalf("killed at %d before %s, power off at %d before %s: %v", i, kill.Op.String(), j, power.Op.String(), err)
			}
		}
	}
}

// An encrypted restore removes what a plain one left. A kill may leave the journal without its
// tables, and then a plain restore comes again.
func TestRestore_BeginsAnewIfTablesOfItsJournalAreGone(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 10, 700, 'x')
	var b bytes.Buffer
	_, err := db.Backup(t.Context(), &b, stoat.BackupOptions{})
	testkit.Must(t, err)
	restore := func(disk *memfs.FS, keys stoat.KeyProvider) error {
		o := stoat.RestoreOptions{Options: &stoat.Options{FS: disk, Keys: keys}}
		_, err := stoat.Restore(t.Context(), "/db", o, bytes.NewReader(b.Bytes()))
		return err
	}
	unnamed := func(states []testkit.State) (disks []*memfs.FS) {
		for _, s := range states {
			if _, err := s.Disk.Stat("/db"); errors.Is(err, vfs.ErrNotExist) {
				disks = append(disks, s.Disk)
			}
		}
		return disks
	}
	keys := stoat.StaticKeys(stoat.MasterKey{ID: "m", Key: make([]byte, stoat.MasterKeySize)})
	disk := memfs.New()
	stop := testkit.States(disk)
	testkit.Must(t, restore(disk, nil))
	for i, plain := range unnamed(stop()) {
		stop := testkit.States(plain)
		testkit.Must(t, restore(plain, keys))
		for j, left := range unnamed(stop()) {
			disks := []*memfs.FS{left}
			for lost := range left.Unsynced() { // the power goes off as well
				disks = append(disks, left.CrashKeeping(func(op int) bool { return op != lost }))
			}
			for n, disk := range disks {
				if err := errors.Join(restore(disk, nil), isSound(t, disk)); err != nil {
					t.Fatalf("plain one killed at %d, encrypted one at %d, disk %d: %v", i, j, n, err)
				}
			}
		}
	}
}

// isSound returns an error if the database in /db is damaged, does not have ten keys, or has a
// file of another restore.
func isSound(t *testing.T, disk *memfs.FS) error {
	t.Helper()
	db, err := stoat.Open("/db", &stoat.Options{FS: disk, MustExist: true})
	if err != nil {
		return err
	}
	var keys error
	if _, err := disk.Stat("/db/KEYS.tmp"); err == nil {
		keys = errors.New("the file KEYS.tmp of an encrypted restore is left")
	}
	n := 0
	counted := db.View(func(tx stoat.Txn) error {
		for range tx.All() {
			n++
		}
		return tx.Err()
	})
	if n != 10 {
		counted = errors.Join(counted, fmt.Errorf("%d keys, want 10", n))
	}
	_, err = db.Check(t.Context(), stoat.CheckOptions{})
	return errors.Join(keys, counted, err, db.Close())
}

// failSyncsOfNames lets one sync of a directory fail in each restore, whose names the system then
// takes for durable. The same restore goes on, and then the power goes off. The database must be
// whole, or absent so that another restore can make it.
func failSyncsOfNames(t *testing.T, options func(disk vfs.FS) *stoat.Options) {
	t.Helper()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 10, 700, 'x')
	var b bytes.Buffer
	_, err := db.Backup(t.Context(), &b, stoat.BackupOptions{})
	testkit.Must(t, err)
	restore := func(disk vfs.FS) error {
		_, err := stoat.Restore(t.Context(), "/db", stoat.RestoreOptions{Options: options(disk)}, bytes.NewReader(b.Bytes()))
		return err
	}
	for nth := int64(1); ; nth++ {
		disk := memfs.New()
		faults := faultfs.New(disk)
		fault := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: vfs.SyncDropped})
		failed := restore(faults)
		if fault.Fired() == 0 {
			break
		}
		stop := testkit.States(disk)
		if failed != nil {
			testkit.Must(t, restore(disk))
		}
		for _, power := range append(stop(), testkit.State{Disk: disk}) {
			left := power.Disk.Crash(memfs.KeepNone, nil)
			_, err := left.Stat("/db")
			if errors.Is(err, vfs.ErrNotExist) {
				err = restore(left)
			}
			var db *stoat.DB
			if err == nil {
				o := options(left)
				o.MustExist = true
				db, err = stoat.Open("/db", o)
			}
			if err == nil {
				err = db.View(func(tx stoat.Txn) error { _, err := tx.Get(testkit.Key(9)); return err })
				testkit.Must(t, db.Close())
			}
			if err != nil {
				t.Fatalf("sync %d of names failed with %v, power off before %s: %v", nth, failed, power.Op.String(), err)
			}
		}
	}
}

func TestRestore_AfterAFailedSyncOfNamesAndThenAPowerCutIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		failSyncsOfNames(t, func(disk vfs.FS) *stoat.Options { return &stoat.Options{FS: disk, Keys: keys} })
	}
}

// An agingClock goes on by a minute with each look.
type agingClock struct{ minutes atomic.Int64 }

func (c *agingClock) Now() time.Time {
	return time.UnixMilli(testkit.ClockStart).Add(time.Duration(c.minutes.Add(1)) * time.Minute)
}

// A file can do without a new data key, but not without its name.
func TestRestore_ANewDataKeyHidesNoFailedSyncOfNames(t *testing.T) {
	t.Parallel()
	clock := new(agingClock)
	failSyncsOfNames(t, func(disk vfs.FS) *stoat.Options {
		return &stoat.Options{FS: disk, Keys: testkit.Keys, DataKeyAge: time.Second, Clock: clock}
	})
}
