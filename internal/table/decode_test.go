package table

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/cache"
	"github.com/stoatdb/stoat/internal/codec"
)

// compressedTable returns a reader of a table with n compressed values of 100 bytes.
func compressedTable(t testing.TB, n int, id codec.ID, o ReaderOptions) *Reader {
	t.Helper()
	var entries []base.Entry
	for i := range n {
		value := fmt.Appendf(make([]byte, 0, 100), "%090d%010d", i%7, i*7919)
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%08d", i), Value: value, Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
	}
	data, _ := mustBuild(t, entries, WriterOptions{Compression: id, HashSeed: testSeed})
	return mustOpen(t, data, o)
}

// BenchmarkGetCompressed gets values without a cache, and with one that is too small for the
// blocks. The arena is emptied after 1000 values, as a transaction that ends does.
func BenchmarkGetCompressed(b *testing.B) {
	const n = 100_000
	for name, id := range map[string]codec.ID{"s2": codec.S2, "zstd": codec.Zstd} {
		for _, cached := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/cache=%t", name, cached), func(b *testing.B) {
				var o ReaderOptions
				if cached {
					o.Cache = cache.New(128 << 10)
					defer o.Cache.Close()
				}
				r := compressedTable(b, n, id, o)
				b.ReportAllocs()
				var arena codec.Arena
				var key []byte
				for i := 0; b.Loop(); i++ {
					key = fmt.Appendf(key[:0], "%08d", i*7919%n)
					v, _, _, ok, err := r.Get(key, base.Hash(key, testSeed), 1, &arena)
					if !ok || err != nil || len(v) != 100 {
						b.Fatal(ok, err)
					}
					if i%1000 == 999 {
						arena.Reset()
					}
				}
			})
		}
	}
}
