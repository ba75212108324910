package behaviour

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The syncs of the log hang, and so do a commit, which waits for one, and a Sync
// behind it. A caller that waits behind both may give up.
func TestSync_EndsWithItsContextWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		testkit.Must(t, err)
		testkit.Must(t, db.Update(setOne))
		release := make(chan struct{})
		disk.SetHook(func(op vfs.Op) {
			if op.Kind == vfs.OpSyncData && op.Category == vfs.CatLog {
				<-release
			}
		})
		waiting := make(chan error, 2)
		for _, wait := range []func() error{func() error { return db.Update(setOne) }, db.Sync} {
			go func() { waiting <- wait() }()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- db.SyncContext(ctx) }()
		synctest.Wait()
		if len(gaveUp) > 0 {
			t.Fatalf("it did not wait: %v", <-gaveUp)
		}
		cancel()
		testkit.WantError(t, "SyncContext", <-gaveUp, context.Canceled)
		testkit.WantError(t, "SyncContext, cancelled before", db.SyncContext(ctx), context.Canceled)
		close(release)
		testkit.Must(t, <-waiting)
		testkit.Must(t, <-waiting)
		testkit.Must(t, db.SyncContext(t.Context()))
		testkit.Must(t, db.Close())
	})
}
