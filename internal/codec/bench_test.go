package codec

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/noise"
)

// BenchmarkCodecs compresses and decodes single values: text, and bytes that do
// not shrink.
func BenchmarkCodecs(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []string{"text", "random"} {
		for _, size := range []int{512, 1 << 10, 4 << 10} {
			var values [64][]byte
			for i := range values {
				if kind == "text" {
					values[i] = text(rng, size)
				} else {
					values[i] = noise.Bytes(rng, size)
				}
			}
			for _, how := range []ID{S2, Zstd} {
				benchCodec(b, fmt.Sprintf("%s/%d/%s", kind, size, []string{S2: "s2", Zstd: "zstd"}[how]), how, values[:])
			}
		}
	}
}

func benchCodec(b *testing.B, name string, how ID, values [][]byte) {
	c, err := NewCompressor(how, 1, SizeMax)
	if err != nil {
		b.Fatal(err)
	}
	var ids [64]ID
	var stored [64][]byte
	raw, small := 0, 0
	for i, v := range values {
		id, out := c.Compress(v)
		ids[i], stored[i] = id, append([]byte(nil), out...)
		raw, small = raw+len(v), small+len(out)
	}
	b.Run(name+"/compress", func(b *testing.B) {
		b.SetBytes(int64(len(values[0])))
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			c.Compress(values[i%64])
		}
		b.ReportMetric(100*float64(small)/float64(raw), "%size")
	})
	if ids[0] == None {
		return
	}
	b.Run(name+"/decode", func(b *testing.B) {
		b.SetBytes(int64(len(values[0])))
		b.ReportAllocs()
		dst := make([]byte, len(values[0]))
		for i := 0; b.Loop(); i++ {
			if err := ids[i%64].Decode(dst, stored[i%64]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
