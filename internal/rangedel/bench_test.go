package rangedel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// disjoint returns deletions of neighbouring keys, in random order.
func disjoint(n int) []Deletion {
	d := make([]Deletion, n)
	for i, p := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		d[i] = Deletion{fmt.Appendf(nil, "user/%08d/a", p), fmt.Appendf(nil, "user/%08d/x", p), base.SeqNum(i + 1)}
	}
	return d
}

// nested returns the deletions of a queue that is trimmed again and again.
func nested(n int) []Deletion {
	d := make([]Deletion, n)
	for i := range d {
		d[i] = Deletion{[]byte("queue/"), fmt.Appendf(nil, "queue/%08d", i), base.SeqNum(i + 1)}
	}
	return d
}

func BenchmarkCover(b *testing.B) {
	for _, n := range []int{1, 100, 100_000} {
		l := Build(disjoint(n))
		keys := make([][]byte, 1<<12)
		rng := rand.New(rand.NewPCG(1, 3))
		for i := range keys {
			keys[i] = fmt.Appendf(nil, "user/%08d/b", rng.IntN(n))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				if l.Cover(keys[i&(1<<12-1)], base.SeqNumMax) == 0 {
					b.Fatal("not covered")
				}
			}
		})
	}
}

// BenchmarkHistory alternates between writing a deletion and reading a key,
// 100,000 times.
func BenchmarkHistory(b *testing.B) {
	const n = 100_000
	for name, d := range map[string][]Deletion{"disjoint": disjoint(n), "nested": nested(n)} {
		b.Run(name, func(b *testing.B) {
			var h *History
			for b.Loop() {
				h = nil
				for i := range d {
					h = h.Extend(d[i : i+1])
					if h.Cover([]byte("none"), base.SeqNumMax) != 0 {
						b.Fatal("covered")
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/deletion")
			b.ReportMetric(float64(h.Bytes())/n, "B/deletion")
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	src := Build(disjoint(10_000)).AppendTo(nil)
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		if _, err := Decode(src, 0); err != nil {
			b.Fatal(err)
		}
	}
}
