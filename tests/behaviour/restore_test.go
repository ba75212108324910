package behaviour

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A kill ends a restore when the database is complete but for its name. The same restore goes on,
// and then the power goes off.
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
