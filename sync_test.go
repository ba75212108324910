package stoat

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/vfs/memfs"
)

// A Sync that runs beside Close may find the store closed, and the queue of commits still
// open. A database that is only read has nothing to put into that queue.
func TestSync_OfADatabaseThatIsOnlyReadIsRefusedOnceCloseHasBegun(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	writer, err := Open("/db", &Options{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Update(func(tx Txn) error { return tx.Set([]byte("k"), nil) }, WithDurability(Buffered)); err != nil {
		t.Fatal(err)
	}
	killed := disk.Clone() // the end of its log is unproven
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for what, open := range map[string]func() (*DB, error){
		"follower":                     func() (*DB, error) { return OpenFollower("/db", &Options{FS: disk}) },
		"read-only database":           func() (*DB, error) { return Open("/db", &Options{FS: disk, ReadOnly: true}) },
		"read-only, unproven":          func() (*DB, error) { return Open("/db", &Options{FS: killed, ReadOnly: true}) },
		"follower of an unproven tail": func() (*DB, error) { return OpenFollower("/db", &Options{FS: killed}) },
	} {
		db, err := open()
		if err != nil {
			t.Fatal(err)
		}
		db.engine.Store.Closing() // as Close does before it drains the commits
		if err := db.Sync(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: Sync returned %v, want %v", what, err, ErrClosed)
		}
		if err := db.Close(); err != nil {
			t.Errorf("%s: Close returned %v", what, err)
		}
	}
}
