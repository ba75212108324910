package diskfull

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A crowded is a database on a small disk.
type crowded struct {
	t     *testing.T
	disk  *memfs.FS
	db    *stoat.DB
	value int // bytes
	keys  int // that exist, or may
	rng   *rand.Rand
}

// crowdedDisk is its size: many times a memtable, some value files.
var crowdedDisk = int64(testkit.Raced(24<<20, 10<<20))

// inCrowded runs fn with a database on a small disk. events may be nil.
func inCrowded(t *testing.T, value int, events func(stoat.Event), fn func(c *crowded)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &crowded{t: t, disk: memfs.New(), value: value, rng: rand.New(rand.NewPCG(7, uint64(value)))}
		c.disk.SetCapacity(crowdedDisk)
		c.db = testkit.OpenOn(t, c.disk, func(o *stoat.Options) { o.MemtableSize, o.Events = 256<<10, events })
		defer func() { testkit.Must(t, c.db.Close()) }()
		fn(c)
		testkit.MustBeSound(t, c.db)
	})
}

func crowdedKey(i int) []byte { return fmt.Appendf(nil, "%08x", uint32(i)*0x9e3779b1) }

// set writes some keys, each a random value.
func (c *crowded) set(from, n int) error {
	return c.db.Update(func(tx stoat.Txn) error {
		for i := range n {
			if err := tx.Set(crowdedKey(from+i), noise.Bytes(c.rng, c.value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// batch is about how many values make 32 KiB.
func (c *crowded) batch() int { return max(1, 32<<10/c.value) }

// fill writes new keys until one transaction after the other is refused, however
// long the database had to make room.
func (c *crowded) fill() {
	c.t.Helper()
	for refused, first := 0, c.keys; refused < 3; {
		if int64((c.keys-first)*c.value) > 2*crowdedDisk {
			c.t.Fatal("the disk never becomes full")
		}
		err := c.set(c.keys, c.batch())
		switch {
		case err == nil:
			c.keys += c.batch()
			refused = 0
		case errors.Is(err, stoat.ErrNoSpace):
			refused++
			time.Sleep(5 * time.Second)
		default:
			c.t.Fatal(err)
		}
	}
	s := c.db.Stats()
	if room := s.DiskFree - s.DiskReserve; s.Refused < 3 || s.DiskLow != (room < 0) || room >= 4*int64(c.batch()*c.value) {
		c.t.Errorf("the disk is full, and Stats say low %t, %d refused, %d bytes free, reserve %d", s.DiskLow, s.Refused, s.DiskFree, s.DiskReserve)
	}
	c.t.Logf("full with %d of %d bytes free, values %d, tables %d, log %d", s.DiskFree, crowdedDisk, s.ValueBytes, s.TableBytes, s.Log.BytesOnDisk)
}

// remove deletes keys until it may be enough.
func (c *crowded) remove(part float64) {
	c.t.Helper()
	for from := 0; from < c.keys; from += 100 {
		testkit.Must(c.t, c.db.Update(func(tx stoat.Txn) error {
			for i := from; i < min(from+100, c.keys); i++ {
				if c.rng.Float64() < part {
					if err := tx.Delete(crowdedKey(i)); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
}

// wantRoom demands that the disk has so much room by itself, and that it can be
// used.
func (c *crowded) wantRoom(least int64) {
	c.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	s := c.db.Stats()
	if s.DiskLow || s.DiskFree < least {
		c.t.Fatalf("after a minute %d bytes are free, want %d: low %t, reserve %d, values %d with garbage %d, tables %d, log %d, memtables %d",
			s.DiskFree, least, s.DiskLow, s.DiskReserve, s.ValueBytes, s.ValueGarbage, s.TableBytes, s.Log.BytesOnDisk, s.MemtableBytes)
	}
	for added := int64(0); added < least/4; added += int64(c.batch() * c.value) {
		testkit.Must(c.t, c.set(c.keys, c.batch()))
		c.keys += c.batch()
	}
}

func TestRoom_DeletingOnAFullDiskMakesRoomByItself(t *testing.T) {
	for _, value := range []int{1 << 10, 16 << 10, 1 << 20} {
		t.Run(fmt.Sprint(value), func(t *testing.T) {
			inCrowded(t, value, nil, func(c *crowded) {
				for range dose.Short(1, 3) {
					c.fill()
					c.remove(0.7)
					c.wantRoom(crowdedDisk / 3)
				}
			})
		})
	}
}

func TestRoom_RangeDeletionOnAFullDiskMakesRoomByItself(t *testing.T) {
	inCrowded(t, 1<<10, nil, func(c *crowded) {
		c.fill()
		testkit.Must(t, c.db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("2"), []byte("c")) }))
		c.wantRoom(crowdedDisk / 3)
	})
}

// A caller drops keys on a full disk to have their space.
func TestRoom_DropPrefixGivesSpaceBackBeforeItReturns(t *testing.T) {
	for _, value := range []int{16 << 10, 40 << 10} {
		t.Run(fmt.Sprint(value), func(t *testing.T) {
			inCrowded(t, value, nil, func(c *crowded) {
				c.fill()
				testkit.Must(t, c.db.DropPrefix(c.t.Context(), []byte("1")))
				testkit.Must(t, c.db.DropPrefix(c.t.Context(), []byte("a")))
				// A job that began in the room that this made has both copies until it ends.
				synctest.Wait()
				if s := c.db.Stats(); s.DiskLow || s.DiskFree < crowdedDisk/12 {
					t.Errorf("an eighth was dropped, and %d bytes are free: low %t, reserve %d, garbage %d", s.DiskFree, s.DiskLow, s.DiskReserve, s.ValueGarbage)
				}
			})
		})
	}
}

func TestRoom_OverwritingWaitsForCollection(t *testing.T) {
	inCrowded(t, 1<<10, nil, func(c *crowded) {
		keys := int(crowdedDisk / (1 << 10) * 3 / 8) // with their garbage they fit
		for from := 0; from < keys; from += 32 {
			testkit.Must(t, c.set(from, 32))
		}
		rounds := 6
		if testing.Short() {
			rounds = 3 // without collection they would not fit either
		}
		for range rounds * keys / 32 {
			if err := c.set(c.rng.IntN(keys-32), 32); err != nil {
				t.Fatalf("%v: %+v", err, c.db.Stats())
			}
		}
	})
}

func TestDiskReserve_SmallDatabaseKeepsLittle(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	if s := db.Stats(); s.DiskReserve > 1<<20 || s.DiskLow {
		t.Errorf("an almost empty database keeps %d bytes, low %t", s.DiskReserve, s.DiskLow)
	}
	testkit.Must(t, db.Close())
}

// What is in memory is still to be flushed, and that takes space.
func TestDiskReserve_GrowsWithMemtables(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 20 })
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	before := db.Stats()
	for i := range 40 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 100<<10)) }))
	}
	after := db.Stats()
	added := after.MemtableBytes - before.MemtableBytes
	if added < 40*100<<10 || after.DiskReserve-before.DiskReserve < added {
		t.Errorf("%d bytes more are in memory, and %d more are kept", added, after.DiskReserve-before.DiskReserve)
	}
	testkit.Must(t, db.Close())
}

func TestDiskReserve_RefusesWritersWhileOthersFillTheDisk(t *testing.T) {
	inCrowded(t, 1<<10, nil, func(c *crowded) {
		testkit.Must(t, c.set(0, 1000))
		c.disk.SetCapacity(c.disk.UsedBytes() + 64<<10)
		// What was looked at before lasts for a while. On a busy machine, jobs may keep up
		// with the writer for a long time.
		var err error
		for i := 0; i < 200_000 && err == nil; i += 10 {
			err = c.set(i%1000, 10)
		}
		testkit.WantError(t, "set on a full disk", err, stoat.ErrNoSpace)
		testkit.Must(t, c.db.Update(func(tx stoat.Txn) error { return tx.Delete(crowdedKey(1)) }))
		time.Sleep(10 * time.Second)
		c.disk.SetCapacity(c.disk.UsedBytes() + 64<<10)
		tx, err := c.db.Begin(stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Delete(crowdedKey(2)))
		testkit.Must(t, tx.Set(crowdedKey(3), []byte("a deletion beside it does not help")))
		testkit.WantError(t, "set beside a deletion", tx.Commit(), stoat.ErrNoSpace)
		c.disk.SetCapacity(1 << 30)
		testkit.Must(t, c.set(0, 10))
		if s := c.db.Stats(); s.DiskLow || s.Refused == 0 {
			t.Errorf("there is room again, and Stats say low %t, %d refused", s.DiskLow, s.Refused)
		}
	})
}

// A readerFunc is a reader that is asked anew each time.
type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestDiskReserve_StreamLeavesRoomForDeleting(t *testing.T) {
	inCrowded(t, 1<<10, nil, func(c *crowded) {
		testkit.Must(t, c.set(0, 1000))
		time.Sleep(time.Minute) // no background job runs
		streamed, deleted := 0, 0
		err := c.db.Update(func(tx stoat.Txn) error {
			return tx.SetReader([]byte("stream"), readerFunc(func(b []byte) (int, error) {
				s := c.db.Stats()
				if s.DiskFree < s.DiskReserve/2 || int64(streamed) > 2*crowdedDisk {
					return 0, fmt.Errorf("%d bytes were streamed, %d are free, reserve %d", streamed, s.DiskFree, s.DiskReserve)
				}
				if err := c.db.Update(func(tx stoat.Txn) error { return tx.Delete(crowdedKey(deleted)) }); err != nil {
					return 0, fmt.Errorf("a deletion beside the stream: %w", err)
				}
				deleted++
				streamed += len(b)
				return len(b), nil
			}))
		})
		if testkit.WantError(t, "a stream larger than the disk", err, stoat.ErrNoSpace); int64(streamed) < crowdedDisk/2 {
			t.Errorf("after %d bytes there was no room: %v", streamed, err)
		}
		c.wantRoom(crowdedDisk / 2)
		// What just fits can also be committed.
		s := c.db.Stats()
		testkit.Must(t, c.db.Update(func(tx stoat.Txn) error {
			return tx.SetReader([]byte("stream"), testkit.Patterned((s.DiskFree-s.DiskReserve)/2))
		}))
	})
}

// A log that cannot be made smaller is no reason to hope for room.
func TestDiskReserve_RefusesAtOnceWhenTheLogCannotShrink(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		faults := faultfs.New(disk)
		var l roomLog
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 1 << 20, Events: l.take})
		testkit.Must(t, err)
		set := func(n int) error {
			return db.Update(func(tx stoat.Txn) error {
				for i := range n {
					if err := tx.Set(testkit.Key(i), make([]byte, 400)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range 8 {
			testkit.Must(t, set(100)) // more than is left in the log in idleness
		}
		for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpOpenReadWrite} {
			faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: op, Forever: true, Err: vfs.ErrNoSpace})
		}
		disk.SetCapacity(disk.UsedBytes() + 64<<10)
		time.Sleep(10 * time.Second)
		if l.failed.Load() == 0 || l.low.Load() == 0 {
			t.Fatalf("%d jobs failed, the disk was low %d times", l.failed.Load(), l.low.Load())
		}
		soon := func(what string, do func() error, want error) {
			t.Helper()
			began := time.Now()
			if err := do(); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
			if took := time.Since(began); took >= 100*time.Millisecond {
				t.Errorf("%s took %v", what, took)
			}
		}
		for range 3 {
			soon("adding", func() error { return set(1) }, stoat.ErrNoSpace)
			soon("deleting", func() error {
				return db.Update(func(tx stoat.Txn) error { return tx.Delete(testkit.Key(0)) })
			}, nil)
		}
		time.Sleep(time.Minute)
		before := l.failed.Load()
		time.Sleep(time.Hour)
		if n := l.failed.Load() - before; n > 10 {
			t.Errorf("%d jobs failed in an hour in which nothing happened", n)
		}
		faults.Clear()
		disk.SetCapacity(1 << 40)
		testkit.Must(t, set(1))
		testkit.Must(t, db.Close())
	})
}
