package tree

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

func isCorrupt(err error) bool { return errors.Is(err, base.ErrCorrupt) }

// BenchmarkGet reads 22-byte keys with 128-byte values from a tree of 2 M keys: a few
// runs of level 0 above a last level, or the last level alone. Everything is loaded
// before. The keys are contiguous, so that reading them costs nothing.
func BenchmarkGet(b *testing.B) {
	const keys = 2_000_000
	for _, runs := range []int{0, 5, 11} {
		x := &testTree{fs: vfs.OS(), dir: b.TempDir(), seed: testSeed}
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
		files.Load(x.tables(), nil, math.MaxInt64, never)
		for _, absent := range []int{0, 1} {
			var ask []byte
			for range 1 << 18 {
				ask = append(ask, key(2*rng.IntN(keys)+absent)...)
			}
			size := len(ask) >> 18
			b.Run(fmt.Sprintf("runs=%d/absent=%d", runs, absent), func(b *testing.B) {
				b.ReportAllocs()
				for at := 0; b.Loop(); at += size {
					if at == len(ask) {
						at = 0
					}
					k := ask[at : at+size]
					_, _, _, ok, err := v.Get(k, base.Hash(k, testSeed), base.SeqNumMax, nil)
					if ok != (absent == 0) || err != nil {
						b.Fatal(ok, err)
					}
				}
			})
		}
		must(b, files.Close())
	}
}

// putBenchKey writes key number i of the benchmarks, without allocating.
func putBenchKey(key []byte, i int) []byte {
	key = append(key[:0], "vsz=00128-k=0000000000"...)
	for at := len(key) - 1; i > 0; i /= 10 {
		key[at] += byte(i % 10)
		at--
	}
	return key
}

// BenchmarkSeek finds ten keys from a random one on, and reads both ends of their
// values, in a warm tree of 2 M keys of 22 bytes with values of 128 bytes. The tree is
// the last level alone, or has that many runs of level 0 above it. Each run has a
// twentieth of all keys, in as many tables as flushes would make.
func BenchmarkSeek(b *testing.B) {
	const keys, tables = 2_000_000, 8
	for _, runs := range []int{0, 1, 8} {
		x := &testTree{fs: vfs.OS(), dir: b.TempDir(), seed: testSeed}
		rng := rand.New(rand.NewPCG(1, 2))
		value := make([]byte, 128)
		fill := func(level int, run uint64, from, to, step int) {
			var entries []base.Entry
			for i := from; i < to; i += step {
				entries = append(entries, base.Entry{Key: putBenchKey(nil, i), Value: value, Seq: base.SeqNum(1 + run), Meta: base.Meta{Kind: base.KindSet}})
			}
			x.add(b, level, run, entries)
			x.entries = nil
		}
		for r := range runs {
			for part := range tables {
				fill(0, uint64(runs-r), r+part*keys/tables, (part+1)*keys/tables, 20)
			}
		}
		for part := range tables {
			fill(6, 0, part*keys/tables, (part+1)*keys/tables, 1)
		}
		files := New(x.options())
		b.Run(fmt.Sprintf("runs=%d", runs), func(b *testing.B) {
			var levels Levels
			levels.Init(files.View(&x.version, nil), 0, table.IterOptions{})
			var inputs []iter.Input
			for i := range levels.Len() {
				inputs = append(inputs, iter.Input{Source: levels.Source(i), Grouped: true})
			}
			var visible iter.Visible
			visible.Init(inputs, false, nil, nil, iter.Snapshot{At: base.SeqNumMax, Values: true})
			visible.Together(&levels)
			for ok := visible.Seek(nil); ok; {
				ok = visible.Next()
			}
			b.ReportAllocs()
			var key []byte
			sum := 0
			for b.Loop() {
				key = putBenchKey(key, rng.IntN(keys-10))
				ok := visible.Seek(key)
				for n := 1; ok; n++ {
					v := visible.Entry.Value
					sum += int(v[0]) + int(v[len(v)-1])
					if n == 10 {
						break
					}
					ok = visible.Next()
				}
				if !ok {
					b.Fatal("ten keys were not there", visible.Err())
				}
			}
			if sum != 0 {
				b.Fatal("values of zeros add up to", sum)
			}
		})
		must(b, files.Close())
	}
}
