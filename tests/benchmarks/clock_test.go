package benchmarks

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// BenchmarkExpiredKey looks for keys that have expired, each in a transaction of
// its own, on a disk: at a time that is kept already, and each a millisecond
// after the one before, when each answer has to make its time durable.
func BenchmarkExpiredKey(b *testing.B) {
	for _, c := range []struct {
		name string
		step int64 // of the clock, in milliseconds
	}{{"at one time", 0}, {"each a millisecond later", 1}} {
		b.Run(c.name, func(b *testing.B) {
			clock := testkit.NewClock()
			db, err := stoat.Open(b.TempDir(), &stoat.Options{Clock: clock})
			if err != nil {
				b.Fatal(err)
			}
			const keys = 1000
			err = db.Update(func(tx stoat.Txn) error {
				for i := range keys {
					key := fmt.Appendf(nil, "%d", i)
					if err := tx.Set(key, nil, stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart+1+int64(i)*c.step))); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			clock.Ms.Add(1)
			i := 0
			for b.Loop() {
				key := fmt.Appendf(nil, "%d", i%keys)
				if err := db.View(func(tx stoat.Txn) error { _, err := tx.Get(key); return err }); !errors.Is(err, stoat.ErrNotFound) {
					b.Fatal(err)
				}
				clock.Ms.Add(c.step)
				i++
			}
			b.ReportMetric(float64(min(i, keys)), "times")
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
