package behaviour

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// deletedKey returns the i-th key that these tests delete.
func deletedKey(i int) []byte { return fmt.Appendf(nil, "a-%06d", i) }

// setLong gives n keys values of so many bytes, in transactions of fifty, and
// returns what the database takes when it has come to rest.
func setLong(t *testing.T, db *stoat.DB, n, size int) int64 {
	t.Helper()
	for from := 0; from < n; from += 50 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := from; i < min(from+50, n); i++ {
				if err := tx.Set(deletedKey(i), make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered)))
	}
	time.Sleep(time.Minute)
	s := db.Stats()
	return s.DiskBytes()
}

// deleteFirst deletes the first n keys in one transaction, or their range.
func deleteFirst(t *testing.T, db *stoat.DB, n int, ranged bool) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		if ranged {
			return tx.DeleteRange(nil, deletedKey(n))
		}
		for i := range n {
			if err := tx.Delete(deletedKey(i)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// beat commits a few bytes again and again for so long.
func beat(t *testing.T, db *stoat.DB, every, until time.Duration) {
	t.Helper()
	for at := time.Duration(0); at < until; at += every {
		time.Sleep(every)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("beat"), fmt.Append(nil, at)) }))
	}
}

// cameBack demands that the database takes less than a twentieth of what it took before. A
// busy log keeps up to five segments of a quarter of a memtable: the current one, two that are
// prepared and two that are free.
func cameBack(t *testing.T, db *stoat.DB, before int64) {
	t.Helper()
	s := db.Stats()
	if log := s.Log.BytesOnDisk; s.DiskBytes()-log > before/20 || log > before/8 {
		t.Errorf("%d bytes are left of %d: values %d, of them garbage %d; a log of %d; in memory %d; level 0 %+v; %d flushes",
			s.DiskBytes(), before, s.ValueBytes, s.ValueGarbage, s.Log.BytesOnDisk, s.MemtableBytes, s.Levels[0], s.Flushes)
	}
}

// staysAtRest demands that nothing is written for a day.
func staysAtRest(t *testing.T, db *stoat.DB) {
	t.Helper()
	time.Sleep(time.Minute)
	first := written(db)
	time.Sleep(24 * time.Hour)
	if last := written(db); last != first {
		t.Errorf("at rest it goes on writing: %v, before %v", last, first)
	}
}

// aMinuteGivesItBack demands that an idle database gives its space back within a
// minute, and closes it.
func aMinuteGivesItBack(t *testing.T, db *stoat.DB, before int64) {
	t.Helper()
	time.Sleep(time.Minute)
	cameBack(t, db, before)
	staysAtRest(t, db)
	testkit.Must(t, db.Close())
}

// written counts all that is done and written behind the commits.
func written(db *stoat.DB) [6]int64 {
	s := db.Stats()
	return [6]int64{s.Flushes, s.FlushedBytes, s.Compactions, s.CompactedBytes, s.Collections, s.CollectedBytes}
}

// each runs a test with deletions of keys and with one of their range, in time
// that passes at once.
func each(t *testing.T, test func(t *testing.T, ranged bool)) {
	for _, ranged := range []bool{false, true} {
		t.Run(map[bool]string{false: "keys", true: "range"}[ranged], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { test(t, ranged) })
		})
	}
}

func usual(o *stoat.Options) { o.MemtableSize = 0 }

func TestDeletions_FewInAnIdleDatabaseGiveSpaceBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ranged bool) {
		db := testkit.OpenOn(t, memfs.New(), usual)
		before := setLong(t, db, 50, 1<<20)
		deleteFirst(t, db, 50, ranged)
		aMinuteGivesItBack(t, db, before)
	})
}

func TestDeletions_FewBesideATrickleGiveSpaceBackWithinAMinute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ranged bool) {
		db := testkit.OpenOn(t, memfs.New(), usual)
		before := setLong(t, db, 50, 1<<20)
		beat(t, db, time.Second/2, time.Minute)
		deleteFirst(t, db, 50, ranged)
		beat(t, db, time.Second/2, time.Minute)
		cameBack(t, db, before)
		staysAtRest(t, db)
		testkit.Must(t, db.Close())
	})
}

func TestDeletions_ManyBesideATrickleGiveSpaceBackWithinAMinute(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ranged bool) {
		const n = 5000
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 2 << 20 })
		before := setLong(t, db, n, 4<<10)
		deleteFirst(t, db, n, ranged)
		beat(t, db, 50*time.Millisecond, time.Minute)
		cameBack(t, db, before)
		testkit.Must(t, db.Close())
	})
}

// Nothing of it has come to tables.
func TestDeletions_InMemoryBesideATrickleGiveSpaceBackWithinMinutes(t *testing.T) {
	t.Parallel()
	const n = 16_000
	for what, c := range map[string]struct {
		set  []stoat.SetOption
		gone func(t *testing.T, db *stoat.DB)
	}{
		"expired": {[]stoat.SetOption{stoat.TTL(time.Second)}, func(*testing.T, *stoat.DB) {}},
		"keys":    {nil, func(t *testing.T, db *stoat.DB) { deleteFirst(t, db, n, false) }},
		"range":   {nil, func(t *testing.T, db *stoat.DB) { deleteFirst(t, db, n, true) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := testkit.OpenOn(t, memfs.New(), usual)
				for i := 0; i < n; {
					testkit.Must(t, db.Update(func(tx stoat.Txn) error {
						for end := i + 100; i < end; i++ {
							if err := tx.Set(deletedKey(i), make([]byte, 1000), c.set...); err != nil {
								return err
							}
						}
						return nil
					}))
				}
				before := db.Stats()
				c.gone(t, db)
				beat(t, db, time.Second/10, 4*time.Minute)
				after := db.Stats()
				if before.Flushes != 0 || after.Flushes == 0 || after.Flushes > 2 {
					t.Errorf("%d flushes, %d before", after.Flushes, before.Flushes)
				}
				if after.DiskBytes() > 2<<20 || after.MemtableBytes > 1<<20 {
					t.Errorf("%d bytes are left of %d: a log of %d; in memory %d", after.DiskBytes(), before.DiskBytes(),
						after.Log.BytesOnDisk, after.MemtableBytes)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

func TestDeletions_InTablesBesideATrickleGiveSpaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		db := testkit.OpenOn(t, memfs.New(), nil)
		before := setLong(t, db, n, 4<<10)
		flushes := db.Stats().Flushes
		for i := range n {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete(deletedKey(i)) }))
			time.Sleep(time.Millisecond)
		}
		if db.Stats().Flushes == flushes {
			t.Fatal("the deletions are all in memory")
		}
		beat(t, db, 50*time.Millisecond, time.Minute)
		cameBack(t, db, before)
		testkit.Must(t, db.Close())
	})
}

func TestDeletions_BeforeCloseGiveSpaceBackAfterTheNextOpen(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, ranged bool) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, usual)
		before := setLong(t, db, 50, 1<<20)
		deleteFirst(t, db, 50, ranged)
		testkit.Must(t, db.Close())
		db = testkit.OpenOn(t, disk, usual)
		aMinuteGivesItBack(t, db, before)
	})
}

func TestDeletions_IdleOpeningFinishesTheWorkOfTheLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			before := setLong(t, db, 2000, 4<<10)
			deleteFirst(t, db, 2000, false)
			testkit.Must(t, db.Close()) // which flushes, and mostly is faster than a merge
			if s := db.Stats(); s.ValueBytes < before/2 {
				continue // this one has left nothing to do
			}
			aMinuteGivesItBack(t, testkit.OpenOn(t, disk, nil), before)
			return
		}
		t.Error("no database has left anything to do")
	})
}

// longAmongShort opens a database of many short values and four of five megabytes between
// them, all in the last level. It returns their keys, too.
func longAmongShort(t *testing.T, disk *memfs.FS) (*stoat.DB, [][]byte) {
	t.Helper()
	const n = 30_000
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 128 << 10 })
	var long [][]byte
	for i := range 4 {
		key := append(deletedKey(i*n/4), '-')
		long = append(long, key)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(key, make([]byte, 5<<20)) }))
	}
	setLong(t, db, n, 100)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	return db, long
}

// removals are the ways to get rid of long values.
var removals = map[string]func(tx stoat.Txn, key []byte) error{
	"deleted":     func(tx stoat.Txn, key []byte) error { return tx.Delete(key) },
	"overwritten": func(tx stoat.Txn, key []byte) error { return tx.Set(key, []byte("x")) },
}

func removeAll(t *testing.T, db *stoat.DB, keys [][]byte, remove func(tx stoat.Txn, key []byte) error) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) (err error) {
		for _, key := range keys {
			err = errors.Join(err, remove(tx, key))
		}
		return err
	}))
}

func TestDeletions_FewLongValuesAmongShortOnesGiveSpaceBackWithinAMinute(t *testing.T) {
	t.Parallel()
	for how, remove := range removals {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, long := longAmongShort(t, memfs.New())
				removeAll(t, db, long, remove)
				time.Sleep(time.Minute)
				if s := db.Stats(); s.ValueBytes > 5<<20 || s.DiskBytes() > 8<<20 {
					t.Errorf("%d bytes are left, %d of them values; level 0 %+v", s.DiskBytes(), s.ValueBytes, s.Levels[0])
				}
				staysAtRest(t, db)
				testkit.Must(t, db.Close())
			})
		})
	}
}

func TestDeletions_FewLongValuesAmongShortOnesMakeRoomOnAFullDisk(t *testing.T) {
	t.Parallel()
	for how, remove := range removals {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := memfs.New()
				db, long := longAmongShort(t, disk)
				disk.SetCapacity(disk.UsedBytes() + 4<<20)
				set := func() error {
					return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("new"), make([]byte, 8<<20)) })
				}
				if err := set(); !errors.Is(err, stoat.ErrNoSpace) {
					t.Fatalf("the disk is not full: %v", err)
				}
				removeAll(t, db, long, remove)
				time.Sleep(time.Minute)
				testkit.Must(t, set())
				testkit.Must(t, db.Close())
			})
		})
	}
}

// The tables of the long values are more than 32 times as large as those of the short ones.
func TestOverwritten_ByShortValuesInAnIdleDatabaseGiveSpaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 15_000
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 128 << 10 })
		setLong(t, db, n, 500)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		before := db.Stats().TableBytes
		setLong(t, db, n, 0)
		if after := db.Stats().TableBytes; after > before/8 {
			t.Errorf("%d bytes of tables are left of %d: %+v", after, before, db.Stats().Levels)
		}
		testkit.Must(t, db.Close())
	})
}

// A queue sets jobs and deletes the oldest waiting jobs, for an hour that passes at
// once, or with -short for a part of it. While the jobs never reach tables, their
// deletions hide nothing there, beside much that stays. When they do, the background
// jobs write at most about as much again as the log.
func TestDeletions_QueueOfJobsWritesLittle(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	if testing.Short() {
		hour /= time.Duration(testkit.Raced(6, 18))
	}
	for _, c := range []struct {
		size, waiting int
		every         time.Duration
		ranged        bool
		beside        int // values of a megabyte
		behind        float64
	}{
		{size: 100, every: 100 * time.Millisecond},
		{size: 100, waiting: 100, every: 100 * time.Millisecond, beside: 50},
		{size: 100, waiting: 100, every: 100 * time.Millisecond, ranged: true, beside: 50},
		{size: 100, waiting: 100, every: 5 * time.Second, beside: 50},
		{size: 100, waiting: 10_000, every: 100 * time.Millisecond, behind: 0.75},
		{size: 1000, waiting: 10_000, every: 100 * time.Millisecond, behind: 1.6},
		{size: 1000, waiting: 10_000, every: 100 * time.Millisecond, ranged: true, behind: 1.6},
		{size: 10_000, waiting: 1000, every: 100 * time.Millisecond, behind: 1.2},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := testkit.OpenOn(t, memfs.New(), usual)
				set := func(key []byte, size int) {
					testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(key, make([]byte, size)) },
						stoat.WithDurability(stoat.Buffered)))
				}
				job := func(i int) []byte { return fmt.Appendf(nil, "job-%08d", i) }
				setLong(t, db, c.beside, 1<<20)
				for i := range c.waiting {
					set(job(i), c.size)
				}
				time.Sleep(time.Minute)
				before := db.Stats()
				for i := range int(hour / c.every) {
					set(job(c.waiting+i), c.size)
					time.Sleep(c.every)
					testkit.Must(t, db.Update(func(tx stoat.Txn) error {
						if c.ranged {
							return tx.DeleteRange(job(0), job(i+1))
						}
						return tx.Delete(job(i))
					}))
				}
				s := db.Stats()
				log := s.Log.BytesWritten - before.Log.BytesWritten
				behind := s.FlushedBytes + s.CompactedBytes + s.CollectedBytes -
					before.FlushedBytes - before.CompactedBytes - before.CollectedBytes
				t.Logf("%d kB of log, %d kB behind, %d flushes, %d kB on the disk",
					log/1000, behind/1000, s.Flushes-before.Flushes, s.DiskBytes()/1000)
				once := c.waiting * (c.size + 100) // comes to tables for the first time
				if c.behind == 0 {
					once = 0
				}
				if float64(behind) > c.behind*float64(log)+float64(once) {
					t.Errorf("%d bytes were written behind a log of %d", behind, log)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

// Each renewal keeps one value. All others go, although the renewals span them.
func TestExpired_ValuesBetweenTwoRenewalsInMemoryGiveSpaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 1 << 20 })
		for i := range n {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				return tx.Set(deletedKey(i), make([]byte, 3000), stoat.TTL(time.Hour))
			}, stoat.WithDurability(stoat.Buffered)))
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		before := db.Stats().DiskBytes()
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return errors.Join(tx.Renew(deletedKey(0), stoat.TTL(240*time.Hour)), tx.Renew(deletedKey(n-1), stoat.TTL(240*time.Hour)))
		}))
		time.Sleep(2 * time.Hour)
		cameBack(t, db, before)
		staysAtRest(t, db)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for i := range n {
				if ok, err := tx.Has(deletedKey(i)); err != nil || ok != (i == 0 || i == n-1) {
					t.Errorf("key %d is there: %v, %v", i, ok, err)
				}
			}
			return nil
		}))
		testkit.Must(t, db.Close())
	})
}
