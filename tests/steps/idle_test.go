package steps

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The pointers to large values are few bytes, and what the values replaced is
// known to be garbage only when they are in tables.
func TestIdle_FlushesAFewPointersToLargeValues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openStill(t)
		for _, apart := range []bool{false, true} {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				if !apart {
					return tx.Set([]byte("key"), []byte("value"))
				}
				for i := range 4 {
					if err := tx.Set(fmt.Appendf(nil, "%d", i), make([]byte, commit.ApartMin(db.Engine.Transactions.MemtableSize))); err != nil {
						return err
					}
				}
				return nil
			}))
			time.Sleep(work.IdleAfter)
			if _, err := db.Engine.Jobs.FlushStep(); err != nil {
				t.Fatal(err)
			}
			if waits := len(db.Engine.Store.View().Memtables) > 1; waits != apart {
				t.Errorf("large values %t: there is something to flush: %t", apart, waits)
			}
		}
	})
}

// Collection cannot free what a transaction keeps, and that does not grow with what
// is written.
func TestThrottle_CommitsAreNotSlowedDownForWhatATransactionKeeps(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	exchange := func() {
		t.Helper()
		testkit.Must(t, db.Engine.Store.Install(manifest.Edit{}, nil))
	}
	num, file, err := db.Engine.Store.NewValueFile()
	testkit.Must(t, err)
	testkit.Must(t, file.Close())
	exchange()
	tx, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	defer tx.Discard()
	exchange()
	db.Engine.Store.Discard([]state.Obsolete{state.ObsoleteValues(&manifest.ValueFile{File: num, Size: 1 << 40})})
	exchange()
	if kept := db.Engine.Store.ObsoleteValueBytes(); kept != 1<<40 {
		t.Errorf("%d bytes of values are kept for the transaction", kept)
	}
	db.Engine.Throttle.Charge(1 << 40)
	testkit.Must(t, db.Engine.Throttle.Admit(t.Context(), 1))
	if waits, took := db.Engine.Throttle.Waits(); waits > 0 || db.Engine.Throttle.Collecting() {
		t.Errorf("a commit after a large one has to wait for %v", took)
	}
}

// Close saves the time for the last time. A transaction that goes on reading sees no
// later one.
func TestClock_AReaderBesideCloseSeesNoTimeThatIsNotSaved(t *testing.T) {
	t.Parallel()
	clock := clockAt(1000)
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New(), Clock: clock}, work.Executor{})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte("key"), nil, stoat.ExpiresAt(time.UnixMilli(2000)))
	}))
	tx, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	defer tx.Discard()
	testkit.Must(t, db.Close())
	clock.ms.Store(3000)
	if inside.Txn(tx).NowMs() >= 2000 {
		t.Error("the key has expired, says a reader, at a time that the next opening does not know")
	}
	if db.Engine.Store.Now() != 1000 {
		t.Errorf("it is %d after Close at 1000", db.Engine.Store.Now())
	}
}

// The rest of the manifest's room is for edits that free space.
func TestClock_ReadersWriteNothingToTheManifestOfAFullDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := clockAt(1000)
		disk := memfs.New()
		faults := faultfs.New(disk)
		db, err := inside.Open("/db", &stoat.Options{FS: faults, Clock: clock}, work.Executor{})
		testkit.Must(t, err)
		// step is the time in milliseconds from one expiry to the next.
		const keys, step = 10, 2000
		expiry := func(i int) int64 { return int64(2000 + i*step) }
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range keys {
				if err := tx.Set(fmt.Appendf(nil, "%d", i), nil, stoat.ExpiresAt(time.UnixMilli(expiry(i)))); err != nil {
					return err
				}
			}
			return nil
		}))
		var written atomic.Int64
		faults.Observe(func(op vfs.Op) {
			if op.Kind == vfs.OpWrite && op.Category == vfs.CatManifest {
				written.Add(1)
			}
		})
		for _, free := range []int64{0, math.MaxInt64 / 2} {
			disk.SetCapacity(disk.UsedBytes() + free)
			time.Sleep(2 * time.Second) // after a failure, readers wait before they try again
			before := written.Load()
			for i := range keys / 2 {
				if free > 0 {
					i += keys / 2
				}
				clock.ms.Store(uint64(expiry(i)))
				testkit.Must(t, db.View(func(tx stoat.Txn) error {
					if ok, err := tx.Has(fmt.Appendf(nil, "%d", i)); ok || err != nil {
						t.Errorf("key %d: %t, %v", i, ok, err)
					}
					return nil
				}))
			}
			if wrote := written.Load() > before; wrote != (free > 0) {
				t.Errorf("with %d bytes free the manifest was written: %t", free, wrote)
			}
		}
		testkit.Must(t, db.Close())
	})
}

// A setClock shows the time that a test has set, in milliseconds of Unix time.
type setClock struct{ ms atomic.Uint64 }

// Now returns the time.
func (c *setClock) Now() time.Time { return time.UnixMilli(int64(c.ms.Load())) }

func clockAt(ms uint64) *setClock {
	c := new(setClock)
	c.ms.Store(ms)
	return c
}
