package stoat

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A job that went on would write to a directory whose lock has been given back, and
// on a disk on which there is hardly any space.
func TestLowDisk_AnOpeningThatFailsLeavesNoJobsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := openWith("/db", &Options{FS: disk, Durability: Buffered}, work.Executor{Manual: true})
		mustOK(t, err)
		mustOK(t, leaveGarbage(db, "key"))
		setSome(t, db)
		killed := disk.Clone() // it is unknown whether the end of the log is durable
		mustOK(t, db.Close())

		killed.SetCapacity(killed.UsedBytes() + 64<<10)
		faults := faultfs.New(killed)
		for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpOpenReadWrite} {
			faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: op, Forever: true})
		}
		faults.Add(faultfs.Rule{Category: vfs.CatValue, Op: vfs.OpCreate, Forever: true}) // so that collection does not end by itself
		var failed atomic.Bool
		faults.Observe(func(op vfs.Op) {
			if !failed.Load() {
				return
			}
			t.Errorf("after Open has failed: %v", op)
			if op.Category == vfs.CatTable {
				runtime.Goexit() // or it would go on for ever
			}
		})
		if _, err := Open("/db", &Options{FS: faults}); !errors.Is(err, vfs.ErrIO) {
			t.Fatalf("Open says %v", err)
		}
		failed.Store(true)
		time.Sleep(time.Minute)
	})
}

// leftGarbage returns a disk that holds a database with garbage to be collected.
func leftGarbage(t *testing.T) *memfs.FS {
	t.Helper()
	disk := memfs.New()
	db, err := openWith("/db", &Options{FS: disk}, work.Executor{Manual: true})
	mustOK(t, err)
	for i := range 3 {
		mustOK(t, leaveGarbage(db, fmt.Sprint(i)))
	}
	mustOK(t, db.Close())
	return disk
}

// A copy that fails has written until then, and is worth nothing.
func TestLowDisk_ACollectionThatFailsIsNotTriedOverAndOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		most int64 // writes in half an hour
	}{
		"although there seems to be room": {vfs.ErrNoSpace, 20},
		"on a device that fails":          {vfs.ErrIO, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				faults := faultfs.New(leftGarbage(t))
				writes := faults.Add(faultfs.Rule{Category: vfs.CatValue, Op: vfs.OpWrite, Forever: true, Err: c.err})
				db, err := Open("/db", &Options{FS: faults})
				mustOK(t, err)
				time.Sleep(space.RetryMax / 2)
				synctest.Wait()
				if n := writes.Fired(); n == 0 || n > c.most {
					t.Errorf("%d writes were tried in half an hour, want 1 to %d", n, c.most)
				}
				faults.Clear()
				time.Sleep(work.RetryMax)
				synctest.Wait()
				full := errors.Is(c.err, ErrNoSpace)
				if s := db.Stats(); s.ValueGarbage > 0 != full {
					t.Errorf("a minute after the last failure %d bytes of garbage are left", s.ValueGarbage)
				}
				// Collect tries all the same.
				mustOK(t, db.Collect(t.Context()))
				if s := db.Stats(); s.ValueGarbage > 0 || db.engine.Space.Lacking() {
					t.Errorf("%d bytes of garbage are left by Collect, space is lacking: %t", s.ValueGarbage, db.engine.Space.Lacking())
				}
				mustOK(t, db.Close())
			})
		})
	}
}

// A transaction that waits for room waits until all jobs say that they rest.
func TestLowDisk_AFlusherThatHasNothingToFlushNorToLeaveRests(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillOn(t, disk)
	flushSome(t, db)
	disk.SetCapacity(disk.UsedBytes() + 64<<10)
	db.engine.Space.Look()
	for range 2 { // the first may leave the log behind
		_, err := db.engine.Jobs.FlushStep()
		mustOK(t, err)
	}
	if !db.engine.Space.Resting(space.Flushes) || !db.engine.Space.Scarce() {
		t.Errorf("it does not rest, low %t", db.engine.Space.Scarce())
	}
	disk.SetCapacity(1 << 40)
}

func TestLowDisk_CompactGivesGarbageBackWhereThereIsNoRoomToJoinFiles(t *testing.T) {
	t.Parallel()
	const files, each = 16, 4
	disk := memfs.New()
	db := openStillWith(t, &Options{FS: disk, MemtableSize: 4 << 20})
	set := func(key func(i int) string) {
		t.Helper()
		mustOK(t, db.Update(func(tx Txn) error {
			for i := range each {
				if err := tx.Set([]byte(key(i)), make([]byte, commit.ApartMin(db.opts.MemtableSize)/each)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	for file := range files {
		set(func(i int) string { return fmt.Sprintf("%02d-%d", file, i) })
	}
	for from := 0; from < files; from += each {
		set(func(i int) string { return fmt.Sprintf("%02d-0", from+i) }) // one of each file
	}
	mustFlush(t, db)
	disk.SetCapacity(disk.UsedBytes() + 4<<20)
	if err := db.Compact(t.Context(), CompactOptions{}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("Compact says %v", err)
	}
	if s := db.Stats(); s.ValueGarbage > 0 || s.Values < files {
		t.Errorf("%d bytes of garbage are left in %d files", s.ValueGarbage, s.Values)
	}
	disk.SetCapacity(1 << 40)
	mustOK(t, db.Compact(t.Context(), CompactOptions{}))
	if s := db.Stats(); s.Values >= files {
		t.Errorf("there is room, and %d value files", s.Values)
	}
	if _, err := db.Check(t.Context(), CheckOptions{}); err != nil {
		t.Error(err)
	}
}

// In a database that is only read, no commit looks.
func TestLowDisk_RoomThatOthersMakeIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		var low, regained atomic.Int64
		db, err := Open("/db", &Options{FS: disk, MemtableSize: 256 << 10, Events: func(e Event) {
			switch e.(type) {
			case SpaceLow:
				low.Add(1)
			case SpaceRegained:
				regained.Add(1)
			}
		}})
		mustOK(t, err)
		setSome(t, db)
		disk.SetCapacity(disk.UsedBytes() + 64<<10)
		db.engine.Space.Look()
		time.Sleep(10 * time.Minute)
		if low.Load() != 1 || regained.Load() != 0 {
			t.Fatalf("on a full disk it was low %d times, and not any more %d times", low.Load(), regained.Load())
		}
		disk.SetCapacity(1 << 40)
		time.Sleep(time.Minute) // the compactor looks twice as often
		synctest.Wait()
		if regained.Load() != 1 {
			t.Error("the database has not noticed that there is room again")
		}
		mustOK(t, db.Close())
	})
}

// Where it is a quota that is full, what is free does not tell when it is not.
func TestLowDisk_ACollectionThatFoundNoRoomIsTriedAgainInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := faultfs.New(leftGarbage(t))
		writes := faults.Add(faultfs.Rule{Category: vfs.CatValue, Op: vfs.OpWrite, Forever: true, Err: vfs.ErrNoSpace})
		db, err := Open("/db", &Options{FS: faults})
		mustOK(t, err)
		time.Sleep(time.Minute)
		if writes.Fired() == 0 {
			t.Fatal("nothing was collected")
		}
		faults.Clear()
		time.Sleep(space.RetryMax)
		synctest.Wait()
		if s := db.Stats(); s.ValueGarbage > 0 {
			t.Errorf("%d bytes of garbage are left", s.ValueGarbage)
		}
		mustOK(t, db.Close())
	})
}
