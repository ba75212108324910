package benchmarks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/merge"
)

// counting returns options for counters.
func counting() stoat.Options {
	return stoat.Options{Durability: stoat.Buffered, MergeFunction: merge.Counter.Name(),
		MergeFunctions: []stoat.MergeFunction{merge.Counter}}
}

// BenchmarkIncrement adds 1 to one of a few hot counters from 16 goroutines, by an operand
// or by a read and a write, which is tried again after a conflict.
func BenchmarkIncrement(b *testing.B) {
	for _, keys := range []int{1, 16, 1000} {
		for _, way := range []struct {
			name string
			add  func(tx stoat.Txn, key []byte) error
		}{
			{"merge", func(tx stoat.Txn, key []byte) error { return tx.Merge(key, merge.Add(1)) }},
			{"read-write", func(tx stoat.Txn, key []byte) error {
				v, err := tx.Get(key)
				if err != nil && !errors.Is(err, stoat.ErrNotFound) {
					return err
				}
				n, err := merge.Count(v)
				if err != nil {
					return err
				}
				return tx.Set(key, merge.Add(n+1))
			}},
		} {
			b.Run(fmt.Sprintf("keys=%d/synced/%s", keys, way.name), func(b *testing.B) {
				incrementAll(b, keys, stoat.Synced, way.add)
			})
			b.Run(fmt.Sprintf("keys=%d/buffered/%s", keys, way.name), func(b *testing.B) {
				incrementAll(b, keys, stoat.Buffered, way.add)
			})
		}
	}
}

func incrementAll(b *testing.B, keys int, durability stoat.Durability, add func(tx stoat.Txn, key []byte) error) {
	o := counting()
	o.Durability = durability
	db := openBench(b, o)
	var left atomic.Int64
	left.Store(int64(b.N))
	var workers sync.WaitGroup
	b.ResetTimer()
	for i := range 16 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for left.Add(-1) >= 0 {
				key := benchKey(nil, rng.IntN(keys))
				err := stoat.ErrConflict
				for errors.Is(err, stoat.ErrConflict) {
					err = db.Update(func(tx stoat.Txn) error { return add(tx, key) })
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
	b.StopTimer()
	var sum int64
	if err := db.View(func(tx stoat.Txn) error {
		for _, v := range tx.All() {
			n, err := merge.Count(v)
			if err != nil {
				return err
			}
			sum += n
		}
		return tx.Err()
	}); err != nil || sum != int64(b.N) {
		b.Fatalf("the counters add up to %d, %v, want %d", sum, err, b.N)
	}
}

// BenchmarkGetMerged reads a counter with so many operands in the memtable. Without a
// fold by commits, which the function of another name prevents, a read collects them all.
func BenchmarkGetMerged(b *testing.B) {
	for _, n := range []int{0, 1, 10, 100, 10_000} {
		for _, f := range []stoat.MergeFunction{merge.Counter, &unfolded{}} {
			b.Run(fmt.Sprintf("operands=%d/%s", n, f.Name()), func(b *testing.B) {
				o := counting()
				o.MemtableSize = 1 << 30
				o.MergeFunction, o.MergeFunctions = f.Name(), []stoat.MergeFunction{f}
				db := openBench(b, o)
				u, failing := f.(*unfolded)
				if failing {
					u.works.Store(false)
				}
				key := benchKey(nil, 0)
				if n == 0 {
					if err := db.Update(func(tx stoat.Txn) error { return tx.Set(key, merge.Add(0)) }); err != nil {
						b.Fatal(err)
					}
				}
				for range n {
					if err := db.Update(func(tx stoat.Txn) error { return tx.Merge(key, merge.Add(1)) }); err != nil {
						b.Fatal(err)
					}
				}
				if failing {
					u.works.Store(true)
				}
				b.ResetTimer()
				if err := db.View(func(tx stoat.Txn) error {
					for range b.N {
						if _, err := tx.Get(key); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// An unfolded counter fails while commits might fold it.
type unfolded struct{ works atomic.Bool }

func (*unfolded) Name() string { return "unfolded" }

func (u *unfolded) Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	if !u.works.Load() {
		return dst, errors.New("not yet")
	}
	return merge.Counter.Merge(dst, key, existing, operands)
}
