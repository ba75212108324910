package stoat

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The pointers to large values are few bytes, and what the values replaced is
// known to be garbage only when they are in tables.
func TestAnIdleDatabaseFlushesAFewPointersToLargeValues(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	for _, apart := range []bool{false, true} {
		if err := db.Update(func(tx *Txn) error {
			if !apart {
				return tx.Set([]byte("key"), []byte("value"))
			}
			for i := range 4 {
				if err := tx.Set(fmt.Appendf(nil, "%d", i), make([]byte, db.opts.apartMin())); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		db.background.quiet.from.Store(0) // as if it were long ago
		if _, err := db.idleFlush(); err != nil {
			t.Fatal(err)
		}
		if waits := len(db.view.Load().tables) > 1; waits != apart {
			t.Errorf("large values %t: there is something to flush: %t", apart, waits)
		}
	}
}

func TestALoadAfterDropAllIsNotTakenToReplaceAnything(t *testing.T) {
	t.Parallel()
	var g spaceGauge
	g.learn(0.9)
	g.surplus(spaceUse{garbage: 90, all: 1000})
	if g.replacing() < 0.8 {
		t.Fatalf("a part of %v of the new values replaced others", g.replacing())
	}
	g.surplus(spaceUse{garbage: 1000, all: 1000})
	if g.replacing() != 0 {
		t.Errorf("nothing is live, and a part of %v of what is new is taken to replace it", g.replacing())
	}
}

// Collection cannot free it, and it does not grow with what is written.
func TestWritersAreNotSlowedDownForWhatAnOpenTransactionKeeps(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	exchange := func() {
		t.Helper()
		if err := db.install(manifest.Edit{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	file := db.nextFile.Add(1) - 1
	exchange()
	tx, err := db.Begin(ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Discard()
	exchange()
	db.discard([]relic{{file: base.FileNum(file), values: true, bytes: 1 << 40}})
	exchange()
	if kept := db.garbage.valueBytes.Load(); kept != 1<<40 {
		t.Errorf("%d bytes of values are kept for the transaction", kept)
	}
	if ns := db.admission.nsPerKiB.Load(); ns != 0 || db.admission.gauge.over.Load() {
		t.Errorf("a KiB has to wait for %d ns", ns)
	}
}

// Close keeps the time for the last time. Who is still reading is told of none
// that comes after it.
func TestAReaderBesideCloseIsToldOfNoTimeThatNobodyKeeps(t *testing.T) {
	t.Parallel()
	clock := clockAt(1000)
	disk := memfs.New()
	db, err := Open("/db", &Options{FS: disk, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Txn) error {
		return tx.Set([]byte("key"), nil, ExpiresAt(time.UnixMilli(2000)))
	}); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(ReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Discard()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	clock.ms.Store(3000)
	if tx.expired(2000, false) {
		t.Error("the key has expired, says a reader, at a time that the next opening does not know")
	}
	if db.nowMs() != 1000 {
		t.Errorf("it is %d after Close at 1000", db.nowMs())
	}
}

// What is left of the manifest's room is for the edits that give space back.
func TestReadersWriteNothingToTheManifestOfAFullDisk(t *testing.T) {
	t.Parallel()
	clock := clockAt(1000)
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := Open("/db", &Options{FS: faults, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 10
	if err := db.Update(func(tx *Txn) error {
		for i := range keys {
			if err := tx.Set(fmt.Appendf(nil, "%d", i), nil, ExpiresAt(time.UnixMilli(int64(2000+i*2*keepRetryMs)))); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var written atomic.Int64
	faults.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpWrite && op.Category == vfs.CatManifest {
			written.Add(1)
		}
	})
	for _, free := range []int64{0, math.MaxInt64 / 2} {
		disk.SetCapacity(disk.UsedBytes() + free)
		before := written.Load()
		for i := range keys / 2 {
			if free > 0 {
				i += keys / 2
			}
			clock.ms.Store(uint64(2000 + i*2*keepRetryMs))
			if err := db.View(func(tx *Txn) error {
				if ok, err := tx.Has(fmt.Appendf(nil, "%d", i)); ok || err != nil {
					t.Errorf("key %d: %t, %v", i, ok, err)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if wrote := written.Load() > before; wrote != (free > 0) {
			t.Errorf("with %d bytes free the manifest was written: %t", free, wrote)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func clockAt(ms uint64) *scheduleClock {
	c := new(scheduleClock)
	c.ms.Store(ms)
	return c
}
