package steps

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A write of the manifest fails while an update is applied early, before its record is written.
// The flusher marks the log in the next pause, and Close closes it.
func TestEarly_AfterAFailedManifestTheNextOpenFindsAWholeLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t)
		c.hold()
		c.start(t.Context(), add)
		c.start(t.Context(), add)
		c.start(t.Context(), add) // applied early: its record waits for its group
		c.faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest})
		if _, err := c.db.Keyspace("new", nil); !errors.Is(err, stoat.ErrFailed) {
			t.Fatalf("the manifest has not failed: %v", err)
		}
		c.let()
		synctest.Wait()
		time.Sleep(2 * work.IdleAfter)
		_, _ = c.db.Engine.Jobs.FlushStep() // fails, as the database does
		_ = c.db.Close()
		db, err := stoat.Open("/db", &stoat.Options{FS: c.faults})
		if err != nil {
			t.Fatalf("the next Open: %v", err)
		}
		testkit.Must(t, db.Close())
	})
}

// The manifest fails while a commit is on its way to the device, which is healthy.
func TestFeed_GetsACommitThatAFailureDoesNotEnd(t *testing.T) {
	t.Parallel()
	for _, buffered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			faults, gate := faultfs.New(memfs.New()), newGated(1)
			db := gate.open(t, &stoat.Options{FS: faults})
			var versions []uint64
			var end error
			go func() {
				for c, err := range db.Subscribe(t.Context(), feed.Options{Buffered: buffered}) {
					if end = err; err == nil {
						versions = append(versions, c.Version)
					}
				}
			}()
			synctest.Wait()
			outcome := make(chan error, 1)
			go func() {
				outcome <- db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) })
			}()
			<-gate.arrived
			faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest})
			_, err := db.Keyspace("new", nil)
			testkit.WantError(t, "a change of the manifest", err, stoat.ErrFailed)
			synctest.Wait()
			if end != nil {
				t.Errorf("the feed ends before the commit: %v", end)
			}
			close(gate.gates[0])
			testkit.Must(t, <-outcome)
			synctest.Wait()
			if len(versions) != 1 || !errors.Is(end, stoat.ErrFailed) {
				t.Errorf("the feed has delivered the versions %d, and ends with %v", versions, end)
			}
			testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
		})
	}
}

// Close ends a feed that waits for a commit to learn what a failure has left.
func TestFeed_EndsWithCloseWhileACommitOutlivesAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults, gate := faultfs.New(memfs.New()), newGated(1)
		db := gate.open(t, &stoat.Options{FS: faults})
		go func() {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) }))
		}()
		<-gate.arrived
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest})
		_, err := db.Keyspace("new", nil)
		testkit.WantError(t, "a change of the manifest", err, stoat.ErrFailed)
		var end error
		go func() {
			for _, end = range db.Subscribe(t.Context(), feed.Options{}) {
				_ = end
			}
		}()
		synctest.Wait()
		closed := make(chan error)
		go func() { closed <- db.Close() }()
		synctest.Wait()
		testkit.WantError(t, "the feed", end, stoat.ErrClosed)
		close(gate.gates[0])
		testkit.WantError(t, "Close", <-closed, stoat.ErrFailed)
	})
}
