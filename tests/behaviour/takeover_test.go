package behaviour

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A new manifest takes over when the room of the old one is used up.
func TestUpdate_SucceedsAfterATakeoverOfTheManifestLackedSomething(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]faultfs.Rule{
		"a descriptor": {Op: vfs.OpSyncDir, Err: vfs.ErrTooManyFiles, Sync: vfs.SyncNotTried},
		"space":        {Op: vfs.OpRename, Err: vfs.ErrNoSpace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := faultfs.New(memfs.New())
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
			testkit.Must(t, err)
			var fault atomic.Pointer[faultfs.Fault]
			faults.Observe(func(op vfs.Op) {
				if op.Kind == vfs.OpRename && op.Category == vfs.CatManifest && fault.Load() == nil {
					fault.Store(faults.Add(rule))
				}
			})
			// Each keyspace is an edit of the manifest.
			long := strings.Repeat("x", 200)
			for i := 0; fault.Load() == nil; i++ {
				if _, err := db.Keyspace(fmt.Sprint(long, i), nil); err != nil && !errors.Is(err, stoat.ErrNoSpace) {
					t.Fatal(err)
				}
			}
			if n := fault.Load().Fired(); n != 1 {
				t.Fatalf("%d calls failed", n)
			}
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) }))
			_, err = db.Keyspace("another", nil)
			testkit.Must(t, err)
			testkit.Must(t, db.Close())
			db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
			testkit.Must(t, err)
			testkit.Must(t, db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte("key")); return err }))
			testkit.MustBeSound(t, db)
			testkit.Must(t, db.Close())
		})
	}
}
