package steps

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The clock of the database stands still until the clock of the machine has reached it.
func TestClock_ADeletedRangeGivesSpaceBackWhileItStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, clock := memfs.New(), clockAt(1000)
		open := func() *inside.DB {
			db, err := inside.Open("/db", &stoat.Options{FS: disk, Clock: clock, MemtableSize: 1 << 20}, work.Executor{})
			testkit.Must(t, err)
			return db
		}
		db := open()
		key := func(i int) []byte { return fmt.Appendf(nil, "key %05d", i) }
		const keys = 20_000
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range keys {
				if err := tx.Set(key(i), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		}))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		tables := func() int64 { return db.Engine.Store.Version().TableBytes() }
		for part := range 2 { // of two, each deletes a quarter of the keys
			before := tables()
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(key(part*keys/4), key((part+1)*keys/4)) }))
			testkit.Must(t, db.Engine.Commits.Rotate(true))
			for range 600 {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("beat"), nil) }))
				time.Sleep(100 * time.Millisecond)
			}
			if after := tables(); after > before*4/5 {
				t.Errorf("part %d: tables of %d bytes, before it was deleted %d", part, after, before)
			}
			testkit.Must(t, db.Close())
			db = open()
		}
		testkit.Must(t, db.Close())
	})
}

// The clock was ahead when a reader could not save the time.
func TestClock_ReadersSaveTheTimeOnceThereIsSpaceAlthoughItStandsStill(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock, disk := clockAt(1000), memfs.New()
		opts := &stoat.Options{FS: disk, Clock: clock}
		db, err := stoat.Open("/db", opts)
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil, stoat.ExpiresAt(time.UnixMilli(2000))) }))
		expired := func(db *stoat.DB) {
			t.Helper()
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				if has, err := tx.Has([]byte("key")); has || err != nil {
					t.Errorf("the expired key: %t, %v", has, err)
				}
				return nil
			}))
		}
		disk.SetCapacity(disk.UsedBytes())
		clock.ms.Store(1_000_000)
		expired(db)
		clock.ms.Store(1500)
		disk.SetCapacity(math.MaxInt64 / 2)
		time.Sleep(2 * time.Second)
		expired(db)
		opts.FS = disk.Clone()
		clone, err := stoat.Open("/db", opts)
		testkit.Must(t, err)
		expired(clone)
		testkit.Must(t, clone.Close())
		testkit.Must(t, db.Close())
	})
}

func TestClock_ATimeToLiveBesideTheLatestTimeDoesNotWrap(t *testing.T) {
	t.Parallel()
	db := openStillWith(t, &stoat.Options{FS: memfs.New(), Clock: clockAt(math.MaxInt64 - 10)})
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil, stoat.TTL(time.Hour)) }))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if has, err := tx.Has([]byte("key")); !has || err != nil {
			t.Errorf("the new key: %t, %v", has, err)
		}
		return nil
	}))
}
