package steps

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
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
