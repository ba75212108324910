package contention

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"go.etcd.io/bbolt"
)

const (
	workers = 16
	// roundTime is the length of one round of one store.
	roundTime = 250 * time.Millisecond
)

// A store runs transactions of many goroutines, and runs each again until it commits.
type store interface {
	name() string
	// increment adds 1 to the counter k.
	increment() error
	// push adds n keys to the queue, and pop removes the first one.
	push(from, n int) error
	pop() error
	conflicts() uint64
}

// BenchmarkContention lets 16 goroutines increment one counter, and pop the first key of
// one queue, in durable transactions. The stores take turns. One op is a round of each.
func BenchmarkContention(b *testing.B) {
	for _, w := range []struct {
		name string
		do   func(store) error
	}{{"counter", store.increment}, {"queue", store.pop}} {
		b.Run(w.name, func(b *testing.B) {
			stores := []store{openStoat(b), openBbolt(b)}
			rates, pushed := make([][]float64, len(stores)), 0
			txns, conflicts := make([]uint64, len(stores)), make([]uint64, len(stores))
			for b.Loop() {
				for i, s := range stores {
					if w.name == "queue" {
						if err := s.push(pushed, queueKeys); err != nil {
							b.Fatal(err)
						}
					}
					before := s.conflicts()
					n, took := round(b, func() error { return w.do(s) })
					txns[i], conflicts[i] = txns[i]+n, conflicts[i]+s.conflicts()-before
					rates[i] = append(rates[i], float64(n)/took.Seconds())
				}
				pushed += queueKeys
			}
			for i, s := range stores {
				b.ReportMetric(median(rates[i]), s.name()+"/s")
			}
			ratios := make([]float64, len(rates[0]))
			for i := range ratios {
				ratios[i] = rates[0][i] / rates[1][i]
			}
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(slices.Min(ratios), "ratio-min")
			b.ReportMetric(slices.Max(ratios), "ratio-max")
			b.ReportMetric(float64(conflicts[0])/float64(txns[0]), "conflicts/txn")
		})
	}
}

// queueKeys is the number of keys that are added to the queue before each round.
const queueKeys = 40_000

// round runs do on all workers for the time of a round.
func round(b *testing.B, do func() error) (n uint64, took time.Duration) {
	var done atomic.Uint64
	var all sync.WaitGroup
	started := time.Now()
	for range workers {
		all.Go(func() {
			for time.Since(started) < roundTime {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return done.Load(), time.Since(started)
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

var (
	counter  = []byte("counter")
	errEmpty = errors.New("the queue is empty")
)

// next returns the number after the encoded one.
func next(v []byte) []byte {
	n := uint64(0)
	if len(v) == 8 {
		n = binary.BigEndian.Uint64(v)
	}
	return binary.BigEndian.AppendUint64(nil, n+1)
}

func queueKey(n int) []byte { return fmt.Appendf(nil, "queue/%012d", n) }

type stoatStore struct{ db *stoat.DB }

func openStoat(b *testing.B) store {
	db, err := stoat.Open(filepath.Join(b.TempDir(), "stoat"), &stoat.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return &stoatStore{db: db}
}

func (s *stoatStore) name() string      { return "stoat" }
func (s *stoatStore) conflicts() uint64 { return uint64(s.db.Stats().Conflicts) }

func (s *stoatStore) increment() error {
	return s.db.Update(func(tx stoat.Txn) error {
		v, err := tx.Get(counter)
		if err != nil && !errors.Is(err, stoat.ErrNotFound) {
			return err
		}
		return tx.Set(counter, next(v))
	}, stoat.Retries(math.MaxInt))
}

func (s *stoatStore) push(from, n int) error {
	return s.db.Update(func(tx stoat.Txn) error {
		for i := range n {
			if err := tx.Set(queueKey(from+i), counter); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *stoatStore) pop() error {
	return s.db.Update(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Prefix: []byte("queue/")})
		defer it.Close()
		if !it.Next() {
			return errors.Join(errEmpty, it.Err())
		}
		return tx.Delete(it.Key())
	}, stoat.Retries(math.MaxInt))
}

type bboltStore struct{ db *bbolt.DB }

func openBbolt(b *testing.B) store {
	o := *bbolt.DefaultOptions
	o.FreelistType, o.NoFreelistSync, o.InitialMmapSize = bbolt.FreelistMapType, true, 1<<30
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "bbolt.db"), 0o600, &o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	db.MaxBatchSize = workers // a batch waits for more calls until it holds one of every worker
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(counter)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return &bboltStore{db}
}

func (s *bboltStore) name() string      { return "bbolt" }
func (s *bboltStore) conflicts() uint64 { return 0 }

func (s *bboltStore) increment() error {
	return s.db.Batch(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket(counter)
		return bucket.Put(counter, next(bucket.Get(counter)))
	})
}

func (s *bboltStore) push(from, n int) error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		for i := range n {
			if err := tx.Bucket(counter).Put(queueKey(from+i), counter); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *bboltStore) pop() error {
	return s.db.Batch(func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket(counter).Cursor().Seek([]byte("queue/"))
		if k == nil {
			return errEmpty
		}
		return tx.Bucket(counter).Delete(k)
	})
}
