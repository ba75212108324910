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
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A young database on a small disk has much in its log and little in tables.
func TestFull_AYoungDatabaseGetsRoomByDeletions(t *testing.T) {
	for capacity := int64(26); capacity <= 60; capacity += int64(dose.Short(12, 2)) {
		for _, d := range []stoat.Durability{stoat.Buffered, stoat.Synced} {
			t.Run(fmt.Sprintf("%d MiB/%v", capacity, d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { fillYoung(t, capacity<<20, d) })
			})
		}
	}
}

// fillYoung fills a disk, deletes everything, and expects a database that goes on.
func fillYoung(t *testing.T, capacity int64, d stoat.Durability) {
	disk := memfs.New()
	disk.SetCapacity(capacity)
	var l roomLog
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize, o.Durability, o.Events = 16<<20, d, l.take })
	rng := rand.New(rand.NewPCG(7, uint64(capacity)))
	keys := 0
	set := func(n int) error {
		return db.Update(func(tx stoat.Txn) error {
			for i := range n {
				if err := tx.Set(crowdedKey(keys+i), noise.Bytes(rng, 400)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for refused := 0; refused < 3; {
		err := set(80)
		switch {
		case err == nil:
			keys += 80
			refused = 0
		case errors.Is(err, stoat.ErrNoSpace):
			refused++
			time.Sleep(5 * time.Second)
		default:
			t.Fatal(err)
		}
		if int64(keys)*400 > 2*capacity {
			t.Fatal("never full")
		}
	}
	var del error
	for from := 0; from < keys && del == nil; from += 100 {
		del = db.Update(func(tx stoat.Txn) error {
			for i := from; i < min(from+100, keys); i++ {
				if err := tx.Delete(crowdedKey(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	s := db.Stats()
	failed := l.failed.Load()
	time.Sleep(3 * time.Minute)
	if del != nil || s.DiskLow || l.failed.Load()-failed > 10 {
		t.Errorf("after deleting all: %v, disk low %t, %d KiB free, reserve %d KiB, log %d KiB, tables %d KiB; %d jobs failed in 3 minutes\n%.300s",
			del, s.DiskLow, s.DiskFree>>10, s.DiskReserve>>10, s.Log.BytesOnDisk>>10, s.TableBytes>>10, l.failed.Load()-failed, l.tell())
	}
	disk.SetCapacity(1 << 40)
	time.Sleep(time.Minute)
	testkit.Must(t, db.Close())
}

// Until the first flush, the log has all data, and the flush needs room for as much. Segments
// that the log makes ahead must not take that room.
func TestFull_TheLogLeavesRoomForTheFirstFlush(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const capacity, batch = 26 << 20, 80
		var l roomLog
		c := &crowded{t: t, disk: memfs.New(), value: 400, rng: rand.New(rand.NewPCG(7, 7))}
		c.disk.SetCapacity(capacity)
		c.db = testkit.OpenOn(t, c.disk, func(o *stoat.Options) {
			o.MemtableSize, o.Durability, o.Events = 16<<20, stoat.Buffered, l.take
		})
		for l.jobs.Load() == 0 {
			testkit.Must(t, c.set(c.keys, batch))
			c.keys += batch
			synctest.Wait()
			values, free := int64(c.keys*c.value), capacity-c.disk.UsedBytes()
			if l.jobs.Load() == 0 && free < values {
				t.Errorf("no flush has written %d bytes of values yet, and only %d bytes are free", values, free)
				break
			}
		}
		c.disk.SetCapacity(1 << 40)
		time.Sleep(time.Minute)
		testkit.Must(t, c.db.Close())
	})
}

// Others take the space that a flush needs. What the log keeps for feeds goes then, as
// Options.ChangeRetention says.
func TestFull_ALogThatIsKeptForFeedsGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		var l roomLog
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) {
			o.MemtableSize, o.ChangeRetention, o.Events = 1<<20, 64<<20, l.take
		})
		rng := rand.New(rand.NewPCG(7, 7))
		keys := 0
		set := func(n int) error {
			return db.Update(func(tx stoat.Txn) error {
				for i := range n {
					if err := tx.Set(crowdedKey((keys+i)%10_000), noise.Bytes(rng, 400)); err != nil {
						return err
					}
				}
				keys += n
				return nil
			})
		}
		for keys < 80_000 {
			testkit.Must(t, set(80))
		}
		for db.Stats().MemtableBytes < 800<<10 {
			testkit.Must(t, set(10))
		}
		synctest.Wait()
		disk.SetCapacity(disk.UsedBytes() + 256<<10)
		for range 20 { // what was looked at before lasts for a while
			_ = set(10)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		s, failed := db.Stats(), l.failed.Load()
		time.Sleep(time.Hour)
		err := set(1)
		if err != nil || l.failed.Load()-failed > 10 {
			t.Errorf("a write says %v; disk low %t, %d KiB free, reserve %d KiB, log %d KiB; %d jobs failed in an hour",
				err, s.DiskLow, s.DiskFree>>10, s.DiskReserve>>10, s.Log.BytesOnDisk>>10, l.failed.Load()-failed)
		}
		disk.SetCapacity(1 << 40)
		time.Sleep(time.Minute)
		testkit.Must(t, db.Close())
	})
}
