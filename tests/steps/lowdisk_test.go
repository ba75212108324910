package steps

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/testing/testkit"
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
		db, err := inside.Open("/db", &stoat.Options{FS: disk, Durability: stoat.Buffered}, work.Executor{Manual: true})
		testkit.Must(t, err)
		testkit.Must(t, leaveGarbage(db, "key"))
		setSome(t, db)
		killed := disk.Clone() // it is unknown whether the end of the log is durable
		testkit.Must(t, db.Close())

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
		if _, err := inside.Open("/db", &stoat.Options{FS: faults}, work.Executor{}); !errors.Is(err, vfs.ErrIO) {
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
	db, err := inside.Open("/db", &stoat.Options{FS: disk}, work.Executor{Manual: true})
	testkit.Must(t, err)
	for i := range 3 {
		testkit.Must(t, leaveGarbage(db, fmt.Sprint(i)))
	}
	testkit.Must(t, db.Close())
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
				db, err := inside.Open("/db", &stoat.Options{FS: faults}, work.Executor{})
				testkit.Must(t, err)
				time.Sleep(space.RetryMax / 2)
				synctest.Wait()
				if n := writes.Fired(); n == 0 || n > c.most {
					t.Errorf("%d writes were tried in half an hour, want 1 to %d", n, c.most)
				}
				faults.Clear()
				time.Sleep(work.RetryMax)
				synctest.Wait()
				full := errors.Is(c.err, stoat.ErrNoSpace)
				if s := db.Stats(); s.ValueGarbage > 0 != full {
					t.Errorf("a minute after the last failure %d bytes of garbage are left", s.ValueGarbage)
				}
				// Collect tries all the same.
				testkit.Must(t, db.Collect(t.Context()))
				if s := db.Stats(); s.ValueGarbage > 0 || db.Engine.Space.Lacking() {
					t.Errorf("%d bytes of garbage are left by Collect, space is lacking: %t", s.ValueGarbage, db.Engine.Space.Lacking())
				}
				testkit.Must(t, db.Close())
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
	db.Engine.Space.Look()
	for range 2 { // the first may leave the log behind
		_, err := db.Engine.Jobs.FlushStep()
		testkit.Must(t, err)
	}
	if !db.Engine.Space.Resting(space.Flushes) || !db.Engine.Space.Scarce() {
		t.Errorf("it does not rest, low %t", db.Engine.Space.Scarce())
	}
	disk.SetCapacity(1 << 40)
}

func TestLowDisk_CompactGivesGarbageBackWhereThereIsNoRoomToJoinFiles(t *testing.T) {
	t.Parallel()
	const files, each = 16, 4
	disk := memfs.New()
	db := openStillWith(t, &stoat.Options{FS: disk, MemtableSize: 4 << 20})
	set := func(key func(i int) string) {
		t.Helper()
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range each {
				if err := tx.Set([]byte(key(i)), make([]byte, commit.ApartMin(db.Engine.Transactions.MemtableSize)/each)); err != nil {
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
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); !errors.Is(err, stoat.ErrNoSpace) {
		t.Fatalf("Compact says %v", err)
	}
	if s := db.Stats(); s.ValueGarbage > 0 || s.Values < files {
		t.Errorf("%d bytes of garbage are left in %d files", s.ValueGarbage, s.Values)
	}
	disk.SetCapacity(1 << 40)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if s := db.Stats(); s.Values >= files {
		t.Errorf("there is room, and %d value files", s.Values)
	}
	if _, err := db.Check(t.Context(), stoat.CheckOptions{}); err != nil {
		t.Error(err)
	}
}

// In a database that is only read, no commit looks.
func TestLowDisk_RoomThatOthersMakeIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		var low, regained atomic.Int64
		db, err := inside.Open("/db", &stoat.Options{FS: disk, MemtableSize: 256 << 10, Events: func(e stoat.Event) {
			switch e.(type) {
			case stoat.SpaceLow:
				low.Add(1)
			case stoat.SpaceRegained:
				regained.Add(1)
			}
		}}, work.Executor{})
		testkit.Must(t, err)
		setSome(t, db)
		disk.SetCapacity(disk.UsedBytes() + 64<<10)
		db.Engine.Space.Look()
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
		testkit.Must(t, db.Close())
	})
}

// Where it is a quota that is full, what is free does not tell when it is not.
func TestLowDisk_ACollectionThatFoundNoRoomIsTriedAgainInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := faultfs.New(leftGarbage(t))
		writes := faults.Add(faultfs.Rule{Category: vfs.CatValue, Op: vfs.OpWrite, Forever: true, Err: vfs.ErrNoSpace})
		db, err := inside.Open("/db", &stoat.Options{FS: faults}, work.Executor{})
		testkit.Must(t, err)
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
		testkit.Must(t, db.Close())
	})
}

// A fullDisk is a database on a small disk on which nothing happens by itself: the
// seed decides which step runs when.
type fullDisk struct {
	db     *inside.DB
	disk   *memfs.FS
	rng    *rand.Rand
	size   int64
	value  int     // bytes, the same for all
	lazy   float64 // how often background jobs let the others go on
	keys   int     // that exist, or may
	batch  int     // keys of a transaction
	failed int     // jobs
}

func openFullDisk(seed uint64) (*fullDisk, error) {
	f := &fullDisk{disk: memfs.New(), rng: rand.New(rand.NewPCG(seed, 23)), size: 8 << 20}
	f.disk.SetCapacity(f.size)
	f.value = []int{200, 400, 1 << 10}[f.rng.IntN(3)]
	f.lazy = []float64{0.3, 0.8, 0.95}[f.rng.IntN(3)]
	f.batch = max(1, (8<<10)/(f.value+20))
	var err error
	f.db, err = inside.Open("/db", &stoat.Options{FS: f.disk, MemtableSize: 256 << 10}, work.Executor{Manual: true})
	return f, err
}

func (f *fullDisk) key(i int) []byte { return fmt.Appendf(nil, "%08x", uint32(i)*0x9e3779b1) }

// set adds n keys from the one given on.
func (f *fullDisk) set(from, n int) error {
	return f.db.Update(func(tx stoat.Txn) error {
		for i := range n {
			if err := tx.Set(f.key(from+i), f.random()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fullDisk) random() []byte {
	b := make([]byte, f.value)
	for i := range b {
		b[i] = byte(f.rng.Uint32())
	}
	return b
}

// work does one of the jobs behind, and reports whether there was one.
func (f *fullDisk) work(which int) (did bool, err error) {
	switch which {
	case 0:
		return f.db.Engine.Jobs.FlushNext()
	case 1:
		if before := f.db.Engine.Store.State(); f.db.Engine.Space.Scarce() {
			_, err = f.db.Engine.Jobs.FlushStep()
			return f.db.Engine.Store.State().FlushedSeq > before.FlushedSeq, err
		}
		return false, nil
	case 2:
		now, _ := f.db.Engine.Jobs.Load()
		return f.db.Engine.Jobs.Tidy(now)
	case 3:
		before := f.db.Engine.Store.Version()
		_, err = f.db.Engine.Jobs.CompactStep()
		return f.db.Engine.Store.Version() != before, err
	case 4:
		return f.db.Engine.Collector.Tidy(true, new(collect.LiveSet))
	case idleWork:
		return f.db.Engine.Jobs.Tidy(work.Idle)
	}
	f.db.Engine.Store.Sweep()
	return false, nil
}

// idleWork is the job that only an idle database does where space is not scarce.
const idleWork = 6

// note counts err if it is one of a full disk, as all may have at any time.
func (f *fullDisk) note(err error) error {
	if errors.Is(err, stoat.ErrNoSpace) {
		f.failed++
		return nil
	}
	return err
}

// between does some jobs, or none.
func (f *fullDisk) between() error {
	for f.rng.Float64() > f.lazy {
		if _, err := f.work(f.rng.IntN(6)); f.note(err) != nil {
			return err
		}
	}
	// A full memtable is flushed, or commits would wait for it.
	for failed := 0; len(f.db.Engine.Store.View().Memtables) > 1; {
		_, err := f.work(0)
		if f.note(err) != nil {
			return err
		}
		if err == nil {
			continue
		}
		if failed++; failed == 2 {
			return fmt.Errorf("a flush finds no room: %w", err)
		}
		if err := f.settle(); err != nil {
			return err
		}
	}
	return nil
}

// settle does all jobs until there are none.
func (f *fullDisk) settle() error {
	if !f.db.Engine.Space.Scarce() && f.db.Engine.Store.View().Memtables[0].Len() > 0 {
		if err := f.note(f.db.Engine.Commits.Rotate(true)); err != nil {
			return err
		}
	}
	for round, idle := 0, 0; idle < 2; round++ {
		if round == 10_000 {
			return errors.New("background jobs have no end")
		}
		idle++
		for which := range idleWork + 1 {
			did, err := f.work(which)
			if f.note(err) != nil {
				return err
			}
			if did && err == nil {
				idle = 0
			}
		}
	}
	return nil
}

// fill adds until it is refused again and again, however long the database had to
// make room.
func (f *fullDisk) fill() error {
	for refused := 0; refused < 3; {
		from, n := f.keys, f.batch
		if f.keys > f.batch && f.rng.IntN(4) == 0 {
			from = f.rng.IntN(f.keys - f.batch) // overwrites
		}
		err := f.set(from, n)
		switch {
		case errors.Is(err, stoat.ErrNoSpace):
			refused++
			err = f.settle()
		case err == nil:
			refused = 0
			if from == f.keys {
				f.keys += n
			}
			err = f.between()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// remove deletes a part of all keys, in their order or in that in which they came.
func (f *fullDisk) remove(part float64) error {
	each := 1 + f.rng.IntN(200)
	for from := 0; from < f.keys; from += each {
		tx := func() error {
			return f.db.Update(func(tx stoat.Txn) error {
				for i := from; i < min(from+each, f.keys); i++ {
					if part < 1 && f.rng.Float64() >= part {
						continue
					}
					if err := tx.Delete(f.key(i)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		err := tx()
		if errors.Is(err, stoat.ErrNoSpace) {
			if err = f.settle(); err == nil {
				err = tx()
			}
		}
		if err != nil {
			return fmt.Errorf("delete after %d of %d keys: %w", from, f.keys, err)
		}
		if err := f.between(); err != nil {
			return err
		}
	}
	return nil
}

func runFullDisk(seed uint64) (err error) {
	f, err := openFullDisk(seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.db.Close()) }()
	if err := f.fill(); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	for _, part := range []float64{0.3, 1} {
		if err := f.remove(part); err != nil {
			return err
		}
		if err := f.settle(); err != nil {
			return err
		}
	}
	if s := f.db.Stats(); s.DiskFree < f.size*9/10 {
		return fmt.Errorf("all is deleted, and %d of %d bytes are free: low %t, reserve %d, tables %d, values %d, log %d, memtables %d, %d jobs failed",
			s.DiskFree, f.size, s.DiskLow, s.DiskReserve, s.TableBytes, s.ValueBytes, s.Log.BytesOnDisk, s.MemtableBytes, f.failed)
	}
	return nil
}

// Each seed is an order of jobs and commits. 16 and 74, as 4, end with a full disk where
// no columns are merged. 24 and 34 did so when narrow merges with little hope kept all
// others from being tried, the one of everything among them, which would have written
// nothing.
func TestFullDisk_AllThatIsDeletedComesBackInWhateverOrder(t *testing.T) {
	seeds := []uint64{16, 74}
	if !testing.Short() {
		seeds = append(seeds, 24, 34)
		for seed := range uint64(10) {
			seeds = append(seeds, seed)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if err := runFullDisk(seed); err != nil {
				t.Error(err)
			}
		})
	}
}

// Tables of a few deletions would take the room that merges need to give some back.
func TestLowDisk_AFewDeletionsAreFlushedWhenMergesHaveComeToRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db, err := inside.Open("/db", &stoat.Options{FS: disk}, work.Executor{Manual: true})
		testkit.Must(t, err)
		flushSome(t, db)
		disk.SetCapacity(disk.UsedBytes() + 500<<10)
		db.Engine.Space.Look()
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete([]byte("key")) }))
		time.Sleep(work.IdleAfter)
		flushed := func() bool {
			t.Helper()
			_, err := db.Engine.Jobs.FlushStep()
			testkit.Must(t, err)
			return len(db.Engine.Store.View().Memtables) > 1
		}
		// An edit makes jobs look again.
		if db.Engine.Space.Edited(db.Engine.Jobs.Need(db.Engine.Store.Version(), db.Engine.Store.Horizon())); db.Engine.Space.Resting(space.Merges) || flushed() {
			t.Error("one deletion was flushed before the merges have come to rest")
		}
		db.Woken(db.Engine.Workers.Flusher)
		if db.Engine.Space.Rests(space.Merges); !db.Woken(db.Engine.Workers.Flusher) {
			t.Error("the flusher is not told that merges rest")
		}
		if !flushed() {
			t.Error("merges rest, and a deletion stays in memory")
		}
		disk.SetCapacity(1 << 40)
		testkit.Must(t, db.Close())
	})
}

// The oldest memtables are larger than the room, and all that they hold is deleted in a newer
// one. In the last case they are also larger than what one flush usually takes.
func TestLowDisk_AFlushWithoutRoomTakesTheDeletionsOfNewerMemtables(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size    int64 // of a memtable
		waiting int
		value   int
		idle    bool
	}{{4 << 20, 1, 200, true}, {4 << 20, 1, 200, false}, {70 << 20, 2, 100 << 10, true}} {
		synctest.Test(t, func(t *testing.T) {
			disk := memfs.New()
			db, err := inside.Open("/db", &stoat.Options{FS: disk, MemtableSize: c.size, LargeValueThreshold: 1 << 30}, work.Executor{Manual: true})
			testkit.Must(t, err)
			key := func(i int) []byte { return fmt.Appendf(nil, "%08d", i) }
			rng, keys := rand.New(rand.NewPCG(7, 7)), 0
			for ; len(db.Engine.Store.View().Memtables) <= c.waiting; keys += 100 {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					for i := range 100 {
						if err := tx.Set(key(keys+i), noise.Bytes(rng, c.value)); err != nil {
							return err
						}
					}
					return nil
				}))
			}
			disk.SetCapacity(disk.UsedBytes() + 1<<20)
			db.Engine.Space.Look()
			for i := range keys {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete(key(i)) }))
			}
			if c.idle {
				time.Sleep(work.IdleAfter)
			}
			_, first := db.Engine.Jobs.FlushStep()
			testkit.WantError(t, "a flush of more than the room", first, stoat.ErrNoSpace)
			if _, err := db.Engine.Jobs.FlushStep(); err != nil {
				t.Errorf("%+v: a flush of what is deleted says %v", c, err)
			}
			time.Sleep(work.IdleAfter) // the log becomes small
			_, err = db.Engine.Jobs.FlushStep()
			testkit.Must(t, err)
			if s := db.Stats(); s.TableBytes > 256<<10 || s.Log.BytesOnDisk > 2<<20 {
				t.Errorf("%+v: %d bytes of tables and %d of log are left", c, s.TableBytes, s.Log.BytesOnDisk)
			}
			disk.SetCapacity(1 << 40)
			testkit.Must(t, db.Close())
		})
	}
}
