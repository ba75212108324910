package stress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	stressGoroutines = 16
	stressCounters   = 50
	// stressLives is how many databases live, at least. Each has as much of the time.
	stressLives = 4
	// stressLife is how many commits one database takes; then it is opened
	// again, so that the test can run for hours.
	stressLife = 20_000
)

// TestStress lets 16 goroutines loose on one database and counts: no update
// may be lost, no scan may see half a transaction, and neither goroutines nor
// memory may pile up from one opening to the next.
func TestStress(t *testing.T) {
	seed := dose.Seed(t)
	duration := dose.Duration(t, time.Second, 2*time.Second)
	dose.Reproduce(t, "stress")
	s := &stress{seed: seed, share: duration / stressLives}
	opts := withFunctions(stoat.Options{MemtableSize: 1 << 20})
	var memory []uint64
	goroutines := runtime.NumGoroutine()
	end := time.Now().Add(duration)
	for life := 0; life < stressLives || time.Now().Before(end); life++ {
		opts.FS, opts.Keys = memfs.New(), testkit.KeysIf(life%2 == 1)
		if err := s.live(&opts, life); err != nil {
			t.Fatalf("seed %d, life %d: %v", seed, life, err)
		}
		memory = append(memory, memoryInUse())
	}
	t.Logf("%d lives, %d commits, %d conflicts", len(memory), s.commits.Load(), s.conflicts.Load())
	if first, last := memory[1], memory[len(memory)-1]; last > 2*first+8<<20 {
		t.Errorf("memory grew from %d to %d bytes over %d lives", first, last, len(memory)-1)
	}
	if n := settledGoroutines(goroutines); n > goroutines {
		t.Errorf("%d goroutines are left, there were %d", n, goroutines)
	}
}

func TestMemory_IsBoundedAndComesBackUnderWork(t *testing.T) {
	t.Parallel()
	testkit.Must(t, RunBounds())
}

// TestMemory_ComesBackInEachPauseOfALongLife writes many times what fits into
// memory in one life of a database, reads beside that, and looks at the memory of
// the process in each pause. The files are on a real disk: one in memory would
// count. Mapped pages do not, they are the kernel's.
func TestMemory_ComesBackInEachPauseOfALongLife(t *testing.T) {
	const (
		budget = 4 << 20 // and so memtables of half a MiB
		// aside is what the budget does not name: goroutines, queues, what is kept
		// of transactions for the next ones, and what readers decode.
		aside   = 4 << 20
		writers = 4
	)
	rounds, commits := 10, 400
	if testing.Short() {
		rounds = 6
	}
	before := memoryInUse()
	db, err := stoat.Open(t.TempDir(), &stoat.Options{MemoryBudget: budget, Durability: stoat.Buffered})
	testkit.Must(t, err)
	var most uint64
	var written atomic.Int64
	for round := range rounds {
		errs := make([]error, writers)
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(round), uint64(i)))
				errs[i] = testkit.Times(commits, func(int) error {
					writes := testkit.RandomBatch(rng, 4, 1<<10)
					for j := range writes {
						written.Add(int64(len(writes[j].Key) + len(writes[j].Value)))
					}
					if err := db.Update(func(tx stoat.Txn) error { return testkit.PutAll(tx, writes) }); err != nil {
						return err
					}
					if rng.IntN(20) != 0 {
						return nil
					}
					return db.View(func(tx stoat.Txn) error {
						_, err := testkit.ScanAll(tx, stoat.IterOptions{})
						return err
					})
				})
			})
		}
		group.Wait()
		testkit.Must(t, errors.Join(errs...))
		// A goroutine that waited long for the processor held memtables that were
		// flushed. Collect gives back memtables without readers, and flushes the rest.
		// The memory that is still in use then grows only by a leak.
		testkit.Must(t, testkit.WaitForFlushes(db))
		testkit.Must(t, db.Collect(t.Context()))
		if now := memoryInUse(); now > before {
			most = max(most, now-before)
		}
	}
	stats := db.Stats()
	t.Logf("%d bytes written, %d flushes, %d collections, at most %d bytes of memory", written.Load(), stats.Flushes, stats.Collections, most)
	if most > budget+aside {
		t.Errorf("in a pause the database takes up to %d bytes of memory, want %d of its budget and %d besides at most", most, budget, aside)
	}
	if stats.Flushes < int64(rounds)/2 {
		t.Errorf("%d flushes in %d rounds: nothing that could pile up", stats.Flushes, rounds)
	}
	testkit.Must(t, db.Close())
}

// memoryInUse counts the heap and what lies outside of it.
func memoryInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first one only empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + uint64(vfs.AllocatedBytes())
}

// settledGoroutines gives goroutines that are about to end the time to.
func settledGoroutines(want int) int {
	n := runtime.NumGoroutine()
	for end := time.Now().Add(time.Minute); n > want && time.Now().Before(end); n = runtime.NumGoroutine() {
		time.Sleep(time.Millisecond)
	}
	return n
}

type stress struct {
	seed               uint64
	share              time.Duration // of one life
	commits, conflicts atomic.Int64
}

// live opens a database, lets the goroutines run, and checks what they did:
// by the counters, after a reopening, against what was acknowledged.
func (s *stress) live(opts *stoat.Options, life int) error {
	db, err := stoat.Open(testkit.Dir, opts)
	if err != nil {
		return err
	}
	l := &stressedDB{stress: s, db: db, added: make([]atomic.Int64, stressCounters), features: features{
		merged: make([]atomic.Int64, stressCounters), moved: make([]atomic.Int64, stressCounters)}}
	if err := l.open(db); err != nil {
		return errors.Join(err, db.Close())
	}
	errs := make([]error, stressGoroutines)
	var group sync.WaitGroup
	l.until = time.Now().Add(s.share)
	for i := range errs {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(s.seed+uint64(life), uint64(i)))
			errs[i] = testkit.CatchPanic(func() error { return l.run(rng, &goroutine{number: i}) })
		})
	}
	group.Wait()
	if err := errors.Join(append(errs, db.Close())...); err != nil {
		return err
	}
	if l.db, err = stoat.Open(testkit.Dir, opts); err != nil {
		return err
	}
	return errors.Join(l.total(), l.totals(), l.db.Close())
}

type stressedDB struct {
	*stress
	db    *stoat.DB
	until time.Time
	ended atomic.Int64
	added []atomic.Int64 // to each counter, as acknowledged
	features
}

// A goroutine is one of those that use a database.
type goroutine struct {
	number int
	items  [stressLists]int // how many it has appended to each list
}

// run takes steps until the life ends. It takes one, however late it begins.
func (l *stressedDB) run(rng *rand.Rand, g *goroutine) error {
	for first := true; l.ended.Add(1) < stressLife && time.Now().Before(l.until) || first; first = false {
		var err error
		switch rng.IntN(14) {
		case 0, 1, 2:
			err = l.add(rng)
		case 3:
			err = l.addAsync(rng)
		case 4:
			err = l.pair(rng)
		case 5:
			err = l.scanPairs(rng)
		case 6:
			err = l.readCounters(rng)
		case 7:
			err = l.tally(rng)
		case 8:
			err = l.scanTallies(rng)
		case 9:
			err = l.grow(rng, g)
		case 10:
			err = l.come(rng)
		case 11:
			err = l.pairAt(rng)
		case 12:
			err = l.addAt(rng)
		default:
			err = l.churn(rng)
		}
		if err != nil && !errors.Is(err, stoat.ErrConflict) {
			return err
		}
		if err != nil {
			l.conflicts.Add(1)
		} else {
			l.commits.Add(1)
		}
	}
	return nil
}

func counterKey(i int) []byte { return fmt.Appendf(nil, "counter/%02d", i) }

// increment adds 1 to a counter within tx.
func increment(tx stoat.Txn, key []byte) error {
	n := uint64(0)
	value, err := tx.Get(key)
	if err == nil {
		n = binary.BigEndian.Uint64(value)
	} else if !errors.Is(err, stoat.ErrNotFound) {
		return err
	}
	return tx.Set(key, binary.BigEndian.AppendUint64(nil, n+1))
}

func (l *stressedDB) add(rng *rand.Rand) error {
	i := rng.IntN(stressCounters)
	d := testkit.RandomDurability(rng)
	err := l.db.Update(func(tx stoat.Txn) error { return increment(tx, counterKey(i)) }, stoat.WithDurability(d))
	if err == nil {
		l.added[i].Add(1)
	}
	return err
}

func (l *stressedDB) addAsync(rng *rand.Rand) error {
	i := rng.IntN(stressCounters)
	tx, err := l.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	if err := increment(tx, counterKey(i)); err != nil {
		tx.Discard()
		return err
	}
	done := make(chan error, 1)
	tx.CommitAsync(func(_ uint64, err error) {
		if err == nil {
			l.added[i].Add(1)
		}
		done <- err
	}, stoat.WithDurability(testkit.RandomDurability(rng)))
	return <-done
}

// pair writes two keys far apart that must always have the same value.
func (l *stressedDB) pair(rng *rand.Rand) error {
	value := make([]byte, 8+rng.IntN(200))
	binary.BigEndian.PutUint64(value, rng.Uint64())
	i := rng.IntN(100)
	return l.db.Update(func(tx stoat.Txn) error {
		if err := tx.Set(fmt.Appendf(nil, "left/%02d", i), value); err != nil {
			return err
		}
		return tx.Set(fmt.Appendf(nil, "right/%02d", i), value)
	}, stoat.WithDurability(stoat.Buffered))
}

func (l *stressedDB) scanPairs(rng *rand.Rand) error {
	return l.db.View(func(tx stoat.Txn) error {
		left, err := testkit.ScanAll(tx, stoat.IterOptions{Prefix: []byte("left/")})
		if err != nil {
			return err
		}
		right, err := testkit.ScanAll(tx, stoat.IterOptions{Prefix: []byte("right/"), Reverse: rng.IntN(2) == 0})
		if err != nil {
			return err
		}
		if len(left) != len(right) {
			return fmt.Errorf("%d left and %d right halves at %d", len(left), len(right), tx.ReadVersion())
		}
		byName := make(map[string]string)
		for _, it := range right {
			byName[it.Key[len("right/"):]] = it.Value
		}
		for _, it := range left {
			if byName[it.Key[len("left/"):]] != it.Value {
				return fmt.Errorf("the halves of %s differ at %d", it.Key, tx.ReadVersion())
			}
		}
		return nil
	})
}

// readCounters demands that what was acknowledged before is there.
func (l *stressedDB) readCounters(rng *rand.Rand) error {
	i := rng.IntN(stressCounters)
	least := l.added[i].Load()
	return l.db.View(func(tx stoat.Txn) error { return counterAtLeast(tx, i, least) })
}

func counterAtLeast(tx stoat.Txn, i int, least int64) error {
	value, err := tx.Get(counterKey(i))
	if errors.Is(err, stoat.ErrNotFound) && least == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if n := int64(binary.BigEndian.Uint64(value)); n < least {
		return fmt.Errorf("counter %d is %d, %d were acknowledged", i, n, least)
	}
	return nil
}

// churn writes and deletes keys of its own, and syncs now and then.
func (l *stressedDB) churn(rng *rand.Rand) error {
	switch rng.IntN(20) {
	case 0:
		return l.db.Sync()
	case 1:
		_, err := l.db.SplitRange(nil, nil, nil, 1+rng.IntN(5)) // which estimates, too
		return err
	}
	return l.db.Update(func(tx stoat.Txn) error {
		for range 1 + rng.IntN(10) {
			if err := testkit.Put(tx, testkit.SetKey(rng.IntN(500), testkit.RandomValue(rng, 100))); err != nil {
				return err
			}
			if err := tx.Delete([]byte(testkit.SetKey(rng.IntN(500), "").Key)); err != nil {
				return err
			}
		}
		return nil
	}, stoat.WithDurability(testkit.RandomDurability(rng)))
}

// total demands that every counter is exactly what was acknowledged.
func (l *stressedDB) total() error {
	return l.db.View(func(tx stoat.Txn) error {
		for i := range l.added {
			want := l.added[i].Load()
			if err := counterAtLeast(tx, i, want); err != nil {
				return fmt.Errorf("after reopening: %w", err)
			}
			if err := counterAtLeast(tx, i, want+1); err == nil {
				return fmt.Errorf("counter %d is above the %d increments that were acknowledged", i, want)
			}
		}
		return nil
	})
}
