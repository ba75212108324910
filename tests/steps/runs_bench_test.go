package steps

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/internal/work"
)

// BenchmarkScanOfRuns reads a million short values from that many runs of level 0, as the
// first scan after a load does. A fifth of the keys were written twice or more.
func BenchmarkScanOfRuns(b *testing.B) {
	const entries, keys, batch = 1_000_000, 2_000_000, 1000
	for _, runs := range []int{1, 2, 4, 13} {
		b.Run(fmt.Sprint("runs=", runs), func(b *testing.B) {
			must := func(err error) {
				if b.Helper(); err != nil {
					b.Fatal(err)
				}
			}
			db, err := inside.Open(b.TempDir(), &stoat.Options{MemtableSize: 512 << 20}, work.Executor{Manual: true})
			must(err)
			defer func() { must(db.Close()) }()
			rng := rand.New(rand.NewPCG(1, 1))
			value := noise.Bytes(rng, 128)
			for range runs {
				for range entries / runs / batch {
					must(db.Update(func(tx stoat.Txn) error {
						for range batch {
							if err := tx.Set(fmt.Appendf(nil, "vsz=00128-k=%010d", rng.IntN(keys)), value); err != nil {
								return err
							}
						}
						return nil
					}))
				}
				must(rotateAndFlush(db))
			}
			shown := 0
			for b.Loop() {
				shown = 0
				must(db.View(func(tx stoat.Txn) error {
					it := tx.Iterator(stoat.IterOptions{})
					defer it.Close()
					for it.Next() {
						v := it.Value()
						if binary.LittleEndian.Uint64(v) != binary.LittleEndian.Uint64(value) || v[127] != value[127] {
							return fmt.Errorf("key %q has a wrong value", it.Key())
						}
						shown++
					}
					return it.Err()
				}))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*shown), "ns/key")
		})
	}
}
