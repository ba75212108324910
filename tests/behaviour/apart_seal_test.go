package behaviour

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The device does both in the time of one. A file and its name must be durable before
// the manifest has the file.
func TestApart_FileAndNameAreSyncedSideBySideBeforeTheManifestHasThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := stoat.Open("/db", &stoat.Options{FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		set := func(bytes int) {
			if err := db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), make([]byte, bytes)) }); err != nil {
				t.Error(err)
			}
		}
		set(1) // the log is there
		synctest.Wait()
		data, name := make(chan bool), make(chan bool)
		var durable atomic.Int64
		// together waits for the beginning of the other sync, but not forever.
		together := func(mine, other chan bool) {
			close(mine)
			select {
			case <-other:
			case <-time.After(time.Minute):
				t.Error("one sync waits for the other")
			}
			time.Sleep(time.Second) // while it is under way
			durable.Add(1)
		}
		disk.SetHook(func(op vfs.Op) {
			switch {
			case op.Kind == vfs.OpSyncData && op.Category == vfs.CatValue:
				together(data, name)
			case op.Kind == vfs.OpSyncDir:
				together(name, data)
			case op.Category == vfs.CatManifest && durable.Load() != 2:
				t.Errorf("%v of the manifest, %d of the syncs have ended", op.Kind, durable.Load())
			}
		})
		set(4 << 20)
		disk.SetHook(nil)
		if s := db.Stats(); s.Values != 1 {
			t.Errorf("%d value files", s.Values)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
