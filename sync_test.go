package stoat_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The syncs of the log hang, and so do a commit, which waits for one, and a Sync
// behind it. Whoever waits behind those may give up.
func TestASyncThatWaitsForOthersEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := stoat.Open(dbDir, &stoat.Options{FS: disk})
		must(t, err)
		must(t, db.Update(setOne))
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
		wantError(t, "SyncContext", <-gaveUp, context.Canceled)
		wantError(t, "SyncContext, cancelled before", db.SyncContext(ctx), context.Canceled)
		close(release)
		must(t, <-waiting)
		must(t, <-waiting)
		must(t, db.SyncContext(t.Context()))
		must(t, db.Close())
	})
}
