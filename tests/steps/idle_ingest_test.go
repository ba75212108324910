package steps

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The idle flusher gives up the log while an ingest becomes a part of the database.
func TestIdle_AnIngestBesideTheFlusherThatLeavesTheLogIsNoError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []error
		var beside interposer
		opts := &stoat.Options{FS: memfs.New(), Events: func(e stoat.Event) {
			if b, ok := e.(stoat.BackgroundError); ok {
				told = append(told, b.Err)
			}
		}}
		db, err := inside.Open("/db", opts, work.Executor{Manual: true, Reach: beside.at})
		testkit.Must(t, err)
		// A large commit is flushed as a table of its own, so the active memtable is empty, and
		// the log has more than a megabyte.
		for i := range 40 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				return tx.Set(fmt.Appendf(nil, "%d", i), make([]byte, 100<<10))
			}))
		}
		testkit.Must(t, db.Engine.Commits.Rotate(false))
		_, err = db.Engine.Jobs.FlushNext()
		testkit.Must(t, err)
		time.Sleep(time.Hour)
		beside.point = work.PointInstall
		beside.do = func() {
			_, err := db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
				yield([]byte("ingested"), []byte("value"))
			}, stoat.IngestOptions{})
			testkit.Must(t, err)
		}
		_, err = db.Engine.Jobs.FlushStep()
		beside.do = nil
		if beside.times == 0 {
			t.Error("the flusher did not leave the log: the scene is wrong")
		}
		if err != nil {
			t.Errorf("the flusher: %v", err)
		}
		testkit.Must(t, db.Close())
		if len(told) > 0 {
			t.Errorf("events: %v", errors.Join(told...))
		}
	})
}
