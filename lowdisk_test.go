package stoat

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// What went on would write to a directory whose lock has been given back, and on a
// disk on which there is hardly any space.
func TestAnOpeningThatFailsOnALowDiskLeavesNoWorkBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := openDriven("/db", &Options{FS: disk, Durability: Buffered}, still{})
		mustOK(t, err)
		mustOK(t, leaveGarbage(db, "key"))
		setSome(t, db)
		killed := disk.Clone() // nobody knows whether the end of the log is durable
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
	db, err := openDriven("/db", &Options{FS: disk}, still{})
	mustOK(t, err)
	for i := range 3 {
		mustOK(t, leaveGarbage(db, fmt.Sprint(i)))
	}
	mustOK(t, db.Close())
	return disk
}

// A copy that fails has written until then, and is worth nothing.
func TestACollectionThatFailsIsNotTriedOverAndOver(t *testing.T) {
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
				time.Sleep(shortMax / 2)
				synctest.Wait()
				if n := writes.Fired(); n == 0 || n > c.most {
					t.Errorf("%d writes were tried in half an hour, want 1 to %d", n, c.most)
				}
				faults.Clear()
				time.Sleep(patientRetryMax)
				synctest.Wait()
				full := errors.Is(c.err, ErrNoSpace)
				if s := db.Stats(); s.ValueGarbage > 0 != full {
					t.Errorf("a minute after the last failure %d bytes of garbage are left", s.ValueGarbage)
				}
				// Who asks for it is not kept from trying.
				mustOK(t, db.Collect(t.Context()))
				if s := db.Stats(); s.ValueGarbage > 0 || db.room.shortCopy.Load() != nil {
					t.Errorf("%d bytes of garbage are left by who asked, short %v", s.ValueGarbage, db.room.shortCopy.Load())
				}
				mustOK(t, db.Close())
			})
		})
	}
}

// Who waits for room waits as long as some work does not say that it rests.
func TestAFlusherThatHasNothingToFlushNorToLeaveRests(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillOn(t, disk)
	flushSome(t, db)
	disk.SetCapacity(disk.UsedBytes() + 64<<10)
	db.room.look()
	db.commits.apart.Store(db.flushMin()) // there is something to flush, it seems
	for range 2 {
		if _, err := db.flushStep(); err != nil {
			t.Fatal(err)
		}
	}
	if db.room.rested.Load()&flushRests == 0 || !db.room.low.Load() {
		t.Errorf("it does not rest, low %t", db.room.low.Load())
	}
	disk.SetCapacity(1 << 40)
}

func TestCompactGivesGarbageBackWhereThereIsNoRoomToJoinFiles(t *testing.T) {
	t.Parallel()
	const files, each = 16, 4
	disk := memfs.New()
	db := openStillWith(t, &Options{FS: disk, MemtableSize: 4 << 20})
	set := func(key func(i int) string) {
		t.Helper()
		mustOK(t, db.Update(func(tx *Txn) error {
			for i := range each {
				if err := tx.Set([]byte(key(i)), make([]byte, db.opts.apartMin()/each)); err != nil {
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
	mustOK(t, db.rotate())
	_, err := db.flushNext()
	mustOK(t, err)
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

// A database that is only read has nobody else to look.
func TestRoomThatOthersMakeIsNoticedByItself(t *testing.T) {
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
		db.room.look()
		time.Sleep(10 * time.Minute)
		if low.Load() != 1 || regained.Load() != 0 {
			t.Fatalf("on a full disk it was low %d times, and not any more %d times", low.Load(), regained.Load())
		}
		disk.SetCapacity(1 << 40)
		time.Sleep(2 * agingCheck)
		synctest.Wait()
		if regained.Load() != 1 {
			t.Error("nobody has noticed that there is room again")
		}
		mustOK(t, db.Close())
	})
}

func TestAMergeThatWaitsForRoomIsTriedAgainWhenThereIsSome(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	disk.SetCapacity(1 << 30)
	db := openStillOn(t, disk)
	db.room.look()
	db.room.short.Store(&shortMerge{bytes: 1, free: db.room.free.Load(), at: monotonic()})
	woken := db.background.compactor.work
	for _, some := range []int64{1, 2} {
		for len(woken) > 0 {
			<-woken
		}
		disk.SetCapacity(some << 30)
		db.room.look()
		if told := len(woken) > 0; told != (some > 1) {
			t.Errorf("the disk is %d times as large: the compactor is woken: %t", some, told)
		}
	}
}

// Where it is a quota that is full, what is free does not tell when it is not.
func TestACollectionThatFoundNoRoomIsTriedAgainInTheEnd(t *testing.T) {
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
		time.Sleep(shortMax)
		synctest.Wait()
		if s := db.Stats(); s.ValueGarbage > 0 {
			t.Errorf("%d bytes of garbage are left", s.ValueGarbage)
		}
		mustOK(t, db.Close())
	})
}
