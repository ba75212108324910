package diskfull

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// crowdedRoom is how much room nearlyFull leaves, and crowdedLarge the size of a
// transaction of which the room may hold one or none.
const (
	crowdedRoom  = 3 << 20
	crowdedLarge = 2 << 20
)

// nearlyFull writes new keys until there is little room.
func (c *crowded) nearlyFull() {
	c.t.Helper()
	for {
		if s := c.db.Stats(); s.DiskFree-s.DiskReserve < crowdedRoom {
			return
		}
		testkit.Must(c.t, c.set(c.keys, c.batch()))
		c.keys += c.batch()
	}
}

// setLarge commits a large transaction of the i-th keys after those that exist.
func (c *crowded) setLarge(i int) error {
	each := crowdedLarge / c.value
	return c.db.Update(func(tx stoat.Txn) error {
		for n := range each {
			if err := tx.Set(crowdedKey(c.keys+i*each+n), make([]byte, c.value)); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestDiskReserve_BurstOfWritersLeavesRoomForDeleting(t *testing.T) {
	const writers = 12
	for _, value := range []int{400, 64 << 10} {
		for _, together := range []bool{false, true} {
			if testing.Short() && (value == 400 || !together) { // short values take long
				continue
			}
			t.Run(fmt.Sprintf("%d/together %t", value, together), func(t *testing.T) {
				inCrowded(t, value, nil, func(c *crowded) {
					c.nearlyFull()
					var all sync.WaitGroup
					for i := range writers {
						write := func() {
							if err := c.setLarge(i); err != nil && !errors.Is(err, stoat.ErrNoSpace) {
								t.Error(err)
							}
						}
						if together {
							all.Go(write)
						} else {
							write()
						}
					}
					all.Wait()
					c.keys += writers * crowdedLarge / value
					c.remove(1)
					c.wantRoom(crowdedDisk * 9 / 10)
				})
			})
		}
	}
}

// A roomLog counts what happens to a database on a small disk.
type roomLog struct {
	low, failed, jobs atomic.Int64

	mu struct {
		sync.Mutex
		last []string // the jobs, those that failed too
	}
}

func (l *roomLog) take(e stoat.Event) {
	switch e.(type) {
	case stoat.SpaceLow:
		l.low.Add(1)
		return
	case stoat.BackgroundError:
		l.failed.Add(1)
	case stoat.FlushDone, stoat.CompactionDone, stoat.CollectionDone:
		l.jobs.Add(1)
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.last = append(l.mu.last, fmt.Sprintf("%s %T %+v", time.Now().Format(time.TimeOnly), e, e))
	l.mu.last = l.mu.last[max(0, len(l.mu.last)-50):]
}

// tell returns the last jobs, one a line.
func (l *roomLog) tell() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.mu.last, "\n")
}

// inWatched is inCrowded for short values, with what happens being counted.
func inWatched(t *testing.T, fn func(c *crowded, l *roomLog)) {
	var l roomLog
	inCrowded(t, 400, l.take, func(c *crowded) { fn(c, &l) })
}

func TestDiskReserve_OversizedTransactionCausesNoRepeatedJobs(t *testing.T) {
	inWatched(t, func(c *crowded, l *roomLog) {
		c.nearlyFull()
		refused := 0
		for i := 0; i < dose.Short(3, 8) || refused == 0 && i < int(crowdedDisk/crowdedLarge); i++ {
			low, failed, jobs, tables := l.low.Load(), l.failed.Load(), l.jobs.Load(), int64(c.db.Stats().Tables)
			if err := c.setLarge(0); err == nil {
				c.keys += crowdedLarge / c.value
			} else {
				testkit.WantError(t, "a transaction larger than the room", err, stoat.ErrNoSpace)
				refused++
			}
			low, failed, jobs = l.low.Load()-low, l.failed.Load()-failed, l.jobs.Load()-jobs
			if low > 10+jobs || failed > 10 || jobs > 10+tables { // a job may take the room that the one before has made
				t.Fatalf("while one transaction waited the disk was low %d times, with %d tables, %d jobs, and %d that failed:\n%s",
					low, tables, jobs, failed, l.tell())
			}
		}
		if refused == 0 {
			t.Error("nothing was larger than the room")
		}
	})
}

func TestFullDisk_BackgroundJobsComeToRest(t *testing.T) {
	inWatched(t, func(c *crowded, l *roomLog) {
		c.fill()
		for i := range 4 {
			if err := c.setLarge(i); err == nil {
				t.Error("a large transaction found room on a full disk")
			}
		}
		rests := func(when string) {
			t.Helper()
			time.Sleep(time.Minute)
			jobs, failed := l.jobs.Load(), l.failed.Load()
			time.Sleep(time.Hour)
			if l.jobs.Load() > jobs || l.failed.Load() > failed || failed > 10 {
				t.Errorf("%s there were %d jobs in an hour and %d failures, %d before:\n%s", when, l.jobs.Load()-jobs, l.failed.Load()-failed, failed, l.tell())
			}
		}
		rests("on a full disk")
		c.remove(0.3)
		rests("with a third deleted")
		c.remove(1)
		rests("with all deleted")
		c.wantRoom(crowdedDisk * 9 / 10)
	})
}

func TestFullDisk_StatsChangeNothing(t *testing.T) {
	inWatched(t, func(c *crowded, l *roomLog) {
		testkit.Must(t, c.set(0, 1000))
		c.keys = 1000
		time.Sleep(time.Minute)
		jobs := l.jobs.Load()
		c.disk.SetCapacity(c.disk.UsedBytes() + 64<<10)
		for range 3 {
			if s := c.db.Stats(); s.DiskLow || s.DiskFree <= 64<<10 {
				t.Errorf("Stats look at the disk themselves: low %t, %d bytes free", s.DiskLow, s.DiskFree)
			}
		}
		synctest.Wait()
		if l.low.Load() > 0 || l.jobs.Load() > jobs {
			t.Errorf("asking made the disk low %d times, and %d jobs", l.low.Load(), l.jobs.Load()-jobs)
		}
		if err := c.set(c.keys, 1000); !errors.Is(err, stoat.ErrNoSpace) {
			t.Errorf("adding to a full disk: %v", err)
		}
		if s := c.db.Stats(); !s.DiskLow || s.DiskFree > 64<<10 {
			t.Errorf("a transaction found the disk full, and Stats say low %t, %d bytes free", s.DiskLow, s.DiskFree)
		}
	})
}
