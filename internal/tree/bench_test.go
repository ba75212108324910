package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/vfs"
)

func isCorrupt(err error) bool { return errors.Is(err, base.ErrCorrupt) }

// BenchmarkGet reads 22-byte keys with 128-byte values from a tree of 2 M keys:
// five runs of level 0 above a last level, or the last level alone.
func BenchmarkGet(b *testing.B) {
	const keys = 2_000_000
	for _, runs := range []int{0, 5} {
		x := &testTree{fs: vfs.OS(), dir: b.TempDir()}
		rng := rand.New(rand.NewPCG(1, 2))
		value := make([]byte, 128)
		perRun := keys / 20
		key := func(i int) []byte { return fmt.Appendf(nil, "vsz=00128-k=%010d", i) }
		fill := func(level int, run uint64, from, to, step, seq int) {
			var entries []base.Entry
			for i := from; i < to; i += step {
				entries = append(entries, base.Entry{Key: key(2 * i), Value: value, Seq: base.SeqNum(seq), Meta: base.Meta{Kind: base.KindSet}})
			}
			x.add(b, level, run, entries)
			x.entries = nil
		}
		for r := range runs {
			for part := range 4 {
				fill(0, uint64(runs-r), r+part*keys/4, (part+1)*keys/4, keys/perRun, 100-r)
			}
		}
		for part := range 10 {
			fill(6, 0, part*keys/10, (part+1)*keys/10, 1, 1)
		}
		files := New(x.options())
		v := files.View(&x.version, nil)
		for _, absent := range []int{0, 1} {
			ask := make([][]byte, 1<<16)
			b.Run(fmt.Sprintf("runs=%d/absent=%d", runs, absent), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if i&(len(ask)-1) == 0 {
						b.StopTimer()
						for j := range ask {
							ask[j] = key(2*rng.IntN(keys) + absent)
						}
						b.StartTimer()
					}
					k := ask[i&(len(ask)-1)]
					_, _, _, ok, err := v.Get(k, base.Hash(k, testSeed), base.SeqNumMax)
					if ok != (absent == 0) || err != nil {
						b.Fatal(ok, err)
					}
				}
			})
		}
		must(b, files.Close())
	}
}

// BenchmarkSeek finds ten keys from a random one on, in as many runs as
// BenchmarkGet has, or more.
func BenchmarkSeek(b *testing.B) {
	const keys = 1_000_000
	for _, runs := range []int{0, 5, 12} {
		x := &testTree{fs: vfs.OS(), dir: b.TempDir()}
		rng := rand.New(rand.NewPCG(1, 2))
		value := make([]byte, 128)
		key := func(i int) []byte { return fmt.Appendf(nil, "vsz=00128-k=%010d", i) }
		fill := func(level int, run uint64, from, to, step int) {
			var entries []base.Entry
			for i := from; i < to; i += step {
				entries = append(entries, base.Entry{Key: key(i), Value: value, Seq: base.SeqNum(1 + run), Meta: base.Meta{Kind: base.KindSet}})
			}
			x.add(b, level, run, entries)
			x.entries = nil
		}
		for r := range runs {
			fill(0, uint64(runs-r), r, keys, 16)
		}
		for part := range 8 {
			fill(6, 0, part*keys/8, (part+1)*keys/8, 1)
		}
		files := New(x.options())
		v := files.View(&x.version, nil)
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			levels := make([]Iter, v.Depth())
			inputs := make([]iter.Input, v.Depth())
			for i := range levels {
				levels[i].Init(v, i, table.IterOptions{})
				inputs[i] = iter.Input{Source: &levels[i]}
			}
			var visible iter.Visible
			visible.Init(inputs, false, nil, nil, iter.Snapshot{At: base.SeqNumMax})
			b.ReportAllocs()
			for b.Loop() {
				ok := visible.Seek(key(rng.IntN(keys - 10)))
				for range 9 {
					ok = ok && visible.Next()
				}
				if !ok {
					b.Fatal("ten keys were not there", visible.Err())
				}
			}
		})
		must(b, files.Close())
	}
}
