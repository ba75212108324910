package benchmarks

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
)

// BenchmarkContendedCounter lets many goroutines increment one counter in durable
// transactions, which are run again after conflicts.
func BenchmarkContendedCounter(b *testing.B) {
	key := []byte("counter")
	increment := func(tx stoat.Txn) error {
		v, err := tx.Get(key)
		if err != nil && !errors.Is(err, stoat.ErrNotFound) {
			return err
		}
		n := uint64(0)
		if len(v) == 8 {
			n = binary.BigEndian.Uint64(v)
		}
		var buf [8]byte
		binary.BigEndian.PutUint64(buf[:], n+1)
		return tx.Set(key, buf[:])
	}
	for _, goroutines := range []int{1, 2, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			db := openBench(b, stoat.Options{})
			contend(b, db, goroutines, increment)
		})
	}
}

// BenchmarkContendedQueue lets many goroutines remove the first key of a queue.
func BenchmarkContendedQueue(b *testing.B) {
	pop := func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{KeysOnly: true})
		defer it.Close()
		if !it.Next() {
			return it.Err()
		}
		return tx.Delete(it.Key())
	}
	for _, goroutines := range []int{1, 2, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			db := openBench(b, stoat.Options{})
			batch := db.NewBatch(stoat.BatchOptions{})
			for i := range b.N {
				if err := batch.Set(benchKey(nil, i), []byte("a task")); err != nil {
					b.Fatal(err)
				}
			}
			if err := batch.Commit(); err != nil {
				b.Fatal(err)
			}
			contend(b, db, goroutines, pop)
		})
	}
}

// contend commits b.N updates by many goroutines.
func contend(b *testing.B, db *stoat.DB, goroutines int, update func(stoat.Txn) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	before := db.Stats()
	b.ResetTimer()
	for range goroutines {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if err := db.Update(update, stoat.Retries(math.MaxInt)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	s := db.Stats()
	commits := float64(s.Commits - before.Commits)
	b.ReportMetric(commits/b.Elapsed().Seconds(), "commits/s")
	b.ReportMetric(float64(s.Conflicts-before.Conflicts)/commits, "conflicts/commit")
	b.ReportMetric(commits/float64(max(s.Groups-before.Groups, 1)), "commits/group")
}
