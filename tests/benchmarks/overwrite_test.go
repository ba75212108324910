package benchmarks

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
)

// BenchmarkOverwriteShort measures one overwritten key of 8 M keys with values of 128 bytes.
// Eight goroutines overwrite at random, without syncs. It reports the largest size of the
// files relative to the live data, and the bytes written per byte of the user.
func BenchmarkOverwriteShort(b *testing.B) {
	const keys, writers, batch = 8_000_000, 8, 1000
	db := openBench(b, stoat.Options{Durability: stoat.Buffered})
	fillBench(b, db, keys)
	values := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{}).Read(values)
	before, peak := db.Stats(), int64(0)
	b.ResetTimer()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			var key []byte
			for range max(1, b.N/writers/batch) {
				if err := db.Update(func(tx stoat.Txn) error {
					for range batch {
						at := rng.IntN(len(values) - 128)
						key = benchKey(key, rng.IntN(keys))
						if err := tx.Set(key, values[at:at+128]); err != nil {
							return err
						}
					}
					return nil
				}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-time.After(100 * time.Millisecond):
		}
		peak = max(peak, db.Stats().DiskBytes())
	}
	b.StopTimer()
	after := db.Stats()
	b.ReportMetric(float64(peak)/(keys*(22+128)), "peak/live")
	b.ReportMetric(float64(written(after)-written(before))/float64(after.CommittedBytes-before.CommittedBytes), "written/user")
}

// written returns how many bytes a database has written since it was opened.
func written(s stoat.Stats) int64 {
	return s.Log.BytesWritten + s.ApartBytes + s.FlushedBytes + s.CompactedBytes + s.CollectedBytes + s.GatheredBytes
}
