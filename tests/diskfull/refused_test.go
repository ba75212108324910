package diskfull

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A transaction that is too large for a disk with much free space is refused. Until then it
// waits for space. That must not end the feeds.
func TestDiskReserve_ARefusedTransactionLeavesTheLogToFeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		disk.SetCapacity(128 << 20)
		db, err := stoat.Open("/db", &stoat.Options{FS: disk, MemtableSize: 1 << 20, ChangeRetention: 16 << 20, Durability: stoat.Buffered})
		testkit.Must(t, err)
		write := func(keys int) error {
			return db.Update(func(tx stoat.Txn) error {
				for i := range keys {
					if err := tx.Set(fmt.Appendf(nil, "%06d", i), make([]byte, 1000)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range 4 {
			testkit.Must(t, write(1000))
		}
		time.Sleep(time.Minute) // everything is flushed
		first := firstChange(t, db)
		if err := write(45_000); !errors.Is(err, stoat.ErrNoSpace) {
			t.Errorf("%v, want that the transaction is refused", err)
		}
		time.Sleep(time.Minute)
		if now := firstChange(t, db); now != first {
			t.Errorf("feeds begin at version %d, before at %d", now, first)
		}
		if s := db.Stats(); s.DiskLow || s.DiskFree < 64<<20 {
			t.Errorf("only %d bytes are free", s.DiskFree)
		}
		testkit.Must(t, db.Close())
	})
}

// firstChange returns the version of the first change that a feed finds.
func firstChange(t *testing.T, db *stoat.DB) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for c, err := range db.Subscribe(ctx, feed.Options{Buffered: true}) {
		testkit.Must(t, err)
		return c.Version
	}
	t.Error("the feed ended")
	return 0
}
