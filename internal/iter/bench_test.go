package iter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// benchEntries returns n entries with the keys that the comparison with other
// engines uses.
func benchEntries(n int, m base.Meta) []base.Entry {
	out := make([]base.Entry, n)
	for i := range out {
		out[i] = base.Entry{Key: fmt.Appendf(nil, "vsz=00128-k=%010d", i), Seq: 1, Meta: m}
	}
	return out
}

// deal distributes entries over sources at random.
func deal(entries []base.Entry, sources int, reverse bool) []Input {
	rng := rand.New(rand.NewPCG(1, 1))
	parts := make([][]base.Entry, sources)
	for _, e := range entries {
		p := rng.IntN(sources)
		parts[p] = append(parts[p], e)
	}
	var in []Input
	for _, p := range parts {
		in = append(in, Input{Source: newSliceSource(p, reverse, false)})
	}
	return in
}

// benchAll iterates over everything repeatedly. It reports the cost per entry of
// the inputs, of which there are n, visible or not.
func benchAll(b *testing.B, in []Input, reverse bool, snap Snapshot, n int) {
	var v Visible
	v.Init(in, reverse, nil, nil, snap)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += n {
		for ok := v.Seek(nil); ok; ok = v.Next() {
		}
	}
}

func BenchmarkVisible(b *testing.B) {
	entries := benchEntries(100_000, base.Meta{Kind: base.KindSet})
	for _, sources := range []int{1, 2, 5, 13} {
		for _, reverse := range []bool{false, true} {
			b.Run(fmt.Sprintf("sources=%d/reverse=%v", sources, reverse), func(b *testing.B) {
				benchAll(b, deal(entries, sources, reverse), reverse, Snapshot{At: 5}, len(entries))
			})
		}
	}
}

// BenchmarkVisibleHotKey passes a key with very many versions, as a counter has before a flush.
func BenchmarkVisibleHotKey(b *testing.B) {
	set := base.Meta{Kind: base.KindSet}
	entries := []base.Entry{{Key: []byte("a"), Seq: 1, Meta: set}, {Key: []byte("z"), Seq: 1, Meta: set}}
	for seq := range base.SeqNum(100_000) {
		entries = append(entries, base.Entry{Key: []byte("hot"), Seq: 1 + seq, Meta: set})
	}
	var v Visible
	v.Init([]Input{{Source: newSliceSource(entries, false, false)}}, false, nil, nil, Snapshot{At: base.SeqNumMax})
	for b.Loop() {
		for ok := v.Seek(nil); ok; ok = v.Next() {
		}
	}
}

// BenchmarkVisibleVersions shows all versions, as a compaction reads them.
func BenchmarkVisibleVersions(b *testing.B) {
	entries := benchEntries(100_000, base.Meta{Kind: base.KindSet})
	for _, sources := range []int{1, 2, 5, 13} {
		b.Run(fmt.Sprintf("sources=%d", sources), func(b *testing.B) {
			benchAll(b, deal(entries, sources, false), false, Snapshot{At: base.SeqNumMax, AllVersions: true}, len(entries))
		})
	}
}

// BenchmarkVisibleDeleted skips deleted keys.
func BenchmarkVisibleDeleted(b *testing.B) {
	entries := benchEntries(1_000_000, base.Meta{Kind: base.KindDelete})
	for _, reverse := range []bool{false, true} {
		b.Run(fmt.Sprintf("reverse=%v", reverse), func(b *testing.B) {
			in := []Input{{Source: newSliceSource(entries, reverse, false)}}
			benchAll(b, in, reverse, Snapshot{At: 5}, len(entries))
		})
	}
}

// BenchmarkSource measures the source of the other benchmarks alone.
func BenchmarkSource(b *testing.B) {
	entries := benchEntries(100_000, base.Meta{Kind: base.KindSet})
	s := newSliceSource(entries, false, false)
	var batch Batch
	batch.Want = BatchSize
	b.ResetTimer()
	for i := 0; i < b.N; i += max(batch.N, 1) {
		if err := s.Fill(&batch); err != nil {
			b.Fatal(err)
		}
		if batch.N == 0 {
			s.Seek(nil)
		}
	}
}
