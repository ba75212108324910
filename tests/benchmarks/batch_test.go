package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
)

// A loader writes n keys with values of 128 bytes in random order, and returns when all are
// on the device.
type loader struct {
	name string
	load func(db *stoat.DB, n int) error
	took stopwatch
}

// eachKey calls set for n keys in random order.
func eachKey(n int, set func(key, value []byte) error) error {
	rng, value := rand.New(rand.NewPCG(7, 8)), make([]byte, 128)
	var key []byte
	for range n {
		key = benchKey(key, int(rng.Uint64N(1e9)))
		if err := set(key, value); err != nil {
			return err
		}
	}
	return nil
}

// inTransactions loads in transactions of so many writes.
func inTransactions(each int, d stoat.Durability) func(*stoat.DB, int) error {
	return func(db *stoat.DB, n int) error {
		tx, err := db.Begin(stoat.ReadWrite)
		if err != nil {
			return err
		}
		written := 0
		err = eachKey(n, func(key, value []byte) error {
			if written == each {
				if err := tx.Commit(stoat.WithDurability(d)); err != nil {
					return err
				}
				if tx, err = db.Begin(stoat.ReadWrite); err != nil {
					return err
				}
				written = 0
			}
			written++
			return tx.Set(key, value)
		})
		if err == nil {
			err = tx.Commit(stoat.WithDurability(stoat.Synced))
		}
		return err
	}
}

// inBatch loads with a batch in pieces.
func inBatch(db *stoat.DB, n int) error {
	batch := db.NewBatch(stoat.BatchOptions{Pieces: true})
	if err := eachKey(n, func(key, value []byte) error { return batch.Set(key, value) }); err != nil {
		return err
	}
	return batch.Commit()
}

// BenchmarkBatch loads half a million keys by a batch in pieces and by transactions, in turns.
// It reports the median rates, and how many times that of the transactions of 1,000
// buffered writes each is.
func BenchmarkBatch(b *testing.B) {
	const n = 500_000
	loaders := []*loader{
		{name: "txn-1000-buffered", load: inTransactions(1000, stoat.Buffered)},
		{name: "txn-1000-synced", load: inTransactions(1000, stoat.Synced)},
		{name: "batch", load: inBatch},
	}
	for round := range b.N {
		for i := range loaders {
			l := loaders[(i+round)%len(loaders)]
			db, err := stoat.Open(filepath.Join(b.TempDir(), fmt.Sprint("db", round, i)), nil)
			if err != nil {
				b.Fatal(err)
			}
			l.took.time(func() { err = l.load(db, n) })
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	base := loaders[0].took.median()
	for _, l := range loaders {
		b.ReportMetric(n/l.took.median()*1e6, l.name+"-kkeys/s")
		b.ReportMetric(base/l.took.median(), l.name+"-times")
	}
}
