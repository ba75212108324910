package steps

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// While a memtable has operands, a merge drops what has expired only if it can look there.
// Once Close has begun, it cannot, and leaves the table as it was.
func TestClose_EndsACompactorWhoseMergesChangeNothing(t *testing.T) {
	t.Parallel()
	clock := clockAt(1000)
	disk := faultfs.New(memfs.New())
	opts := testkit.Merging(stoat.Options{FS: disk, Clock: clock})
	db := openStillWith(t, &opts)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		if err := tx.Set([]byte("x"), nil); err != nil {
			return err
		}
		return tx.Set([]byte("y"), nil, stoat.ExpiresAt(time.UnixMilli(2000)))
	}))
	mustFlush(t, db)
	mustMergeAll(t, db)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("a"), []byte("operand")) }))
	clock.ms.Store(10_000_000)
	db.Engine.Store.Closing()
	var merges atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate && op.Category == vfs.CatTable {
			merges.Add(1)
		}
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = db.Engine.Jobs.CompactStep()
	}()
	testkit.Eventually(t, "the compactor does the same merge again", func() bool { return merges.Load() >= 2 })
	select {
	case <-ended:
		t.Error("the compactor has ended before Close ends it")
	default:
	}
	db.Engine.Group.End()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the compactor does not end")
	}
}
