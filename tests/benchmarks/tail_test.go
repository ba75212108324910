package benchmarks

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

const (
	tailKeys = 300_000
	tailSize = 1 << 10
	// tailRound is the length of one op of the benchmarks of slow operations.
	tailRound = time.Second
)

// openTail opens a compacted database of tailKeys keys with values of tailSize bytes.
func openTail(b *testing.B) *stoat.DB {
	db := openBench(b, stoat.Options{Durability: stoat.Buffered})
	fillSized(b, db, tailKeys, tailSize)
	if err := db.Compact(b.Context(), stoat.CompactOptions{}); err != nil {
		b.Fatal(err)
	}
	return db
}

// timesOf runs do until the round ends, and adds how long each call took to times.
func timesOf(times []time.Duration, round time.Duration, do func() error) ([]time.Duration, error) {
	for end := time.Now().Add(round); ; {
		began := time.Now()
		if began.After(end) {
			return times, nil
		}
		if err := do(); err != nil {
			return times, err
		}
		times = append(times, time.Since(began))
	}
}

func sum(times []time.Duration) (total time.Duration) {
	for _, d := range times {
		total += d
	}
	return total
}

// reportTail reports a quantile and the longest of times, in microseconds.
func reportTail(b *testing.B, name string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	for _, q := range []struct {
		name string
		at   int
	}{{"p50", len(times) / 2}, {"p999", len(times) * 999 / 1000}, {"max", len(times) - 1}} {
		b.ReportMetric(float64(times[q.at])/1e3, name+"-"+q.name+"-us")
	}
}

// BenchmarkSeekBeside seeks and reads 20 entries, alone, and beside a writer of 8,000
// unsynced puts a second. One op is a second of each.
func BenchmarkSeekBeside(b *testing.B) {
	db := openTail(b)
	rng := rand.New(rand.NewPCG(3, 4))
	var key []byte
	seek := func() error {
		return db.View(func(tx stoat.Txn) error {
			key = benchKey(key, rng.IntN(tailKeys))
			it := tx.Iterator(stoat.IterOptions{Lower: key})
			defer it.Close()
			for left := 20; left > 0 && it.Next(); left-- {
				v := it.Value()
				scanSum += uint64(v[0]) + uint64(v[len(v)-1])
			}
			return it.Err()
		})
	}
	if _, err := timesOf(nil, tailRound, seek); err != nil {
		b.Fatal(err)
	}
	var alone, beside []time.Duration
	for range b.N {
		var err error
		if alone, err = timesOf(alone, tailRound, seek); err != nil {
			b.Fatal(err)
		}
	}
	var stop atomic.Bool
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := putAtRate(db, 8000, &stop); err != nil {
			b.Error(err)
		}
	})
	for range b.N {
		var err error
		if beside, err = timesOf(beside, tailRound, seek); err != nil {
			b.Fatal(err)
		}
	}
	stop.Store(true)
	writer.Wait()
	a, s := float64(sum(alone))/float64(len(alone)), float64(sum(beside))/float64(len(beside))
	b.ReportMetric(a, "alone-ns")
	b.ReportMetric(s, "beside-ns")
	b.ReportMetric(s/a, "ratio")
	reportTail(b, "alone", alone)
	reportTail(b, "beside", beside)
}

// putAtRate puts existing keys at a rate per second until stop.
func putAtRate(db *stoat.DB, rate float64, stop *atomic.Bool) error {
	rng := rand.New(rand.NewPCG(5, 6))
	value := make([]byte, tailSize)
	var key []byte
	began := time.Now()
	for puts := 0.0; !stop.Load(); {
		if puts >= time.Since(began).Seconds()*rate {
			time.Sleep(time.Millisecond / 2)
			continue
		}
		key = benchKey(key, rng.IntN(tailKeys))
		if err := db.Update(func(tx stoat.Txn) error { return tx.Set(key, value) }); err != nil {
			return err
		}
		puts++
	}
	return nil
}

// BenchmarkMixture lets four goroutines get and put single keys, half and half, with a
// Zipf distribution and without syncs. One op is a second.
func BenchmarkMixture(b *testing.B) {
	db := openTail(b)
	const workers = 4
	var gets, puts [workers][]time.Duration
	var all sync.WaitGroup
	before := db.Stats()
	b.ResetTimer()
	for i := range workers {
		all.Go(func() {
			m := newMixer(db, uint64(i))
			for end := time.Now().Add(time.Duration(b.N) * tailRound); time.Now().Before(end); {
				var err error
				if m.rng.IntN(2) == 0 {
					gets[i], err = m.timed(gets[i], m.get)
				} else {
					puts[i], err = m.timed(puts[i], m.put)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	elapsed, s := b.Elapsed(), db.Stats()
	reads, writes := slices.Concat(gets[:]...), slices.Concat(puts[:]...)
	b.ReportMetric(float64(len(reads)+len(writes))/elapsed.Seconds(), "ops/s")
	b.ReportMetric(float64(s.Waits-before.Waits), "waits")
	b.ReportMetric(float64((s.WaitTime - before.WaitTime).Milliseconds()), "wait-ms")
	reportTail(b, "get", reads)
	reportTail(b, "put", writes)
}

// A mixer is one goroutine of BenchmarkMixture.
type mixer struct {
	db    *stoat.DB
	rng   *rand.Rand
	zipf  *rand.Zipf
	key   []byte
	value []byte
}

func newMixer(db *stoat.DB, seed uint64) *mixer {
	rng := rand.New(rand.NewPCG(7, seed))
	return &mixer{db: db, rng: rng, zipf: rand.NewZipf(rng, 1.01, 1, tailKeys-1), value: make([]byte, tailSize)}
}

func (m *mixer) timed(times []time.Duration, do func() error) ([]time.Duration, error) {
	m.key = benchKey(m.key, int(m.zipf.Uint64()*7919%tailKeys))
	began := time.Now()
	err := do()
	return append(times, time.Since(began)), err
}

func (m *mixer) get() error {
	return m.db.View(func(tx stoat.Txn) error {
		_, err := tx.Get(m.key)
		return err
	})
}

func (m *mixer) put() error {
	return m.db.Update(func(tx stoat.Txn) error { return tx.Set(m.key, m.value) })
}
