package table

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
)

// The benchmarks use keys of 22 bytes and values of 128 bytes that do not
// compress. For every n, some table has the key of number n. Absent keys have
// another last byte.
const (
	benchValueSize = 128
	benchTableSize = 32 << 20
	// distinct is the number of keys in the largest workload.
	distinct = 2_000_000
)

func benchKey(dst []byte, n int) []byte {
	dst = append(dst[:0], "vsz=00128-k=0000000000"...)
	for i := len(dst) - 1; n > 0; i-- {
		dst[i] = '0' + byte(n%10)
		n /= 10
	}
	return dst
}

// benchParts returns the ascending key numbers of tables with so many keys each. It assigns
// the keys of the workload to the tables at random.
func benchParts(sizes ...int) [][]int32 {
	rng := rand.New(rand.NewPCG(1, 2))
	order := make([]int32, distinct)
	for i := range order {
		order[i] = int32(i)
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	var parts [][]int32
	for _, n := range sizes {
		part := slices.Clone(order[:n])
		slices.Sort(part)
		parts, order = append(parts, part), order[n:]
	}
	return parts
}

// A source of random values that costs almost nothing.
var benchNoise = sync.OnceValue(func() []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	return noise.Bytes(rng, 1<<20)
})

func benchEntry(key []byte, n int) base.Entry {
	noise := benchNoise()
	at := int(uint64(n) * 7919 % uint64(len(noise)-benchValueSize))
	return base.Entry{
		Key: benchKey(key, n), Value: noise[at : at+benchValueSize],
		Seq: base.SeqNum(1 + uint64(n)*2654435761%2000), Meta: base.Meta{Kind: base.KindSet},
	}
}

// A run is a list of tables that do not overlap, ascending.
type run []*Reader

func (r run) find(key []byte) *Reader {
	i := sort.Search(len(r), func(i int) bool { return bytes.Compare(r[i].props.Largest, key) >= 0 })
	if i == len(r) || bytes.Compare(key, r[i].props.Smallest) < 0 {
		return nil
	}
	return r[i]
}

func (r run) get(key []byte, hash uint64) (value []byte, ok bool, err error) {
	t := r.find(key)
	if t == nil {
		return nil, false, nil
	}
	value, _, _, ok, err = t.Get(key, hash, base.SeqNumMax, nil)
	return value, ok, err
}

// writeRun makes a run of the keys with these numbers.
func writeRun(b testing.TB, dir string, numbers []int32, opts WriterOptions) run {
	fs := vfs.OS()
	var out run
	var key []byte
	for len(numbers) > 0 {
		name := fs.Join(dir, fmt.Sprintf("%d-%d-%d", len(numbers), numbers[0], opts.BlockSize))
		f, err := fs.Create(name, vfs.CatTable)
		if err != nil {
			b.Fatal(err)
		}
		opts.HashSeed = testSeed
		w, err := NewWriter(f, opts)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for ; n < len(numbers) && w.EstimatedSize() < benchTableSize; n++ {
			e := benchEntry(key, int(numbers[n]))
			key = e.Key
			if err := w.Add(e); err != nil {
				b.Fatal(err)
			}
		}
		props, err := w.Finish()
		if err != nil {
			b.Fatal(err)
		}
		r, err := Open(f, props.Size, name, ReaderOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = r.Close() })
		out, numbers = append(out, r), numbers[n:]
	}
	return out
}

func (r run) warm(b testing.TB) {
	var batch iter.Batch
	for _, t := range r {
		it := t.NewIter(IterOptions{})
		for it.Seek(nil); ; {
			batch.Want = iter.BatchSize
			if err := it.Fill(&batch); err != nil {
				b.Fatal(err)
			}
			if batch.N == 0 {
				break
			}
		}
	}
}

var benchSink uint64

// A stopwatch times a benchmark in chunks of operations and reports the lower
// quartile, which other load on the machine disturbs less than the mean.
type stopwatch struct {
	every, n int
	start    time.Time
	chunks   []float64
}

func newStopwatch(every int) *stopwatch {
	return &stopwatch{every: every, start: time.Now(), chunks: make([]float64, 0, 1<<16)}
}

// tick counts one operation.
func (s *stopwatch) tick() {
	if s.n++; s.n < s.every {
		return
	}
	now := time.Now()
	if len(s.chunks) < cap(s.chunks) {
		s.chunks = append(s.chunks, float64(now.Sub(s.start))/float64(s.every))
	}
	s.n, s.start = 0, now
}

func (s *stopwatch) report(b *testing.B) {
	if len(s.chunks) > 0 {
		slices.Sort(s.chunks)
		b.ReportMetric(s.chunks[len(s.chunks)/4], "quiet-ns/op")
	}
}

// BenchmarkGet reads random keys, each from the tables in turn until one has it.
// It touches the first and the last byte of the value.
func BenchmarkGet(b *testing.B) {
	for _, c := range []struct {
		name  string
		sizes []int
	}{
		{"200k", []int{200_000}},
		{"2M", []int{2_000_000}},
		{"2M-in-6", []int{60_000, 60_000, 60_000, 60_000, 200_000, 1_560_000}},
	} {
		dir := b.TempDir()
		var runs []run
		var all []int32
		for _, part := range benchParts(c.sizes...) {
			runs = append(runs, writeRun(b, dir, part, WriterOptions{Salt: 1}))
			all = append(all, part...)
		}
		for _, r := range runs {
			r.warm(b)
		}
		for _, hit := range []bool{true, false} {
			b.Run(fmt.Sprintf("%s/hit=%v", c.name, hit), func(b *testing.B) {
				benchGets(b, runs, all, hit)
			})
		}
	}
}

func benchGets(b *testing.B, runs []run, all []int32, hit bool) {
	rng := rand.New(rand.NewPCG(5, 6))
	keys := make([]byte, 0, 22<<16)
	for range 1 << 16 {
		k := benchKey(nil, int(all[rng.IntN(len(all))]))
		if !hit {
			k[21] |= 0x40
		}
		keys = append(keys, k...)
	}
	b.ReportAllocs()
	sum, i := uint64(0), 0
	watch := newStopwatch(256)
	defer watch.report(b)
	for b.Loop() {
		watch.tick()
		// A new order of keys on each round, so that the CPU cannot learn the branches.
		i = (i + 40503) & (1<<16 - 1)
		key := keys[22*i : 22*i+22]
		hash := hashOf(key)
		found := false
		for _, r := range runs {
			v, ok, err := r.get(key, hash)
			if err != nil {
				b.Fatal(err)
			}
			if ok {
				sum += uint64(v[0]) + uint64(v[len(v)-1])
				found = true
				break
			}
		}
		if found != hit {
			b.Fatalf("%q: found %v", key, found)
		}
	}
	benchSink += sum
}

// BenchmarkScan reads a run from end to end through a Visible.
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	r := writeRun(b, dir, benchParts(distinct)[0], WriterOptions{Salt: 1})
	r.warm(b)
	for _, o := range []IterOptions{
		{KeysOnly: true}, {}, {KeysOnly: true, Reverse: true}, {Reverse: true}, {Unmapped: true},
	} {
		b.Run(fmt.Sprintf("keysOnly=%v/reverse=%v/unmapped=%v", o.KeysOnly, o.Reverse, o.Unmapped), func(b *testing.B) {
			benchScan(b, r, o)
		})
	}
	b.Run("raw/keysOnly=true", func(b *testing.B) { benchRaw(b, r, IterOptions{KeysOnly: true}) })
	b.Run("raw/keysOnly=false", func(b *testing.B) { benchRaw(b, r, IterOptions{}) })
}

// benchScan measures one key.
func benchScan(b *testing.B, r run, o IterOptions) {
	b.SetBytes(22)
	if !o.KeysOnly {
		b.SetBytes(22 + benchValueSize)
	}
	var it Iter
	table := 0
	benchVisible(b, o, false, func() []iter.Input {
		table = (table + 1) % len(r)
		it.Init(r[table], o)
		return []iter.Input{{Source: &it}}
	})
}

// benchVisible measures one key of a Visible over inputs. At the end of a scan it asks for
// the inputs of the next one.
func benchVisible(b *testing.B, o IterOptions, values bool, inputs func() []iter.Input) {
	var v iter.Visible
	b.ReportAllocs()
	ok, sum := false, uint64(0)
	watch := newStopwatch(4096)
	defer watch.report(b)
	for b.Loop() {
		watch.tick()
		if ok {
			ok = v.Next()
		}
		if !ok {
			if v.Err() != nil {
				b.Fatal(v.Err())
			}
			v.Init(inputs(), o.Reverse, nil, nil, iter.Snapshot{At: base.SeqNumMax, Values: values})
			ok = v.Seek(nil)
		}
		sum += uint64(v.Entry.Key[21])
		if !o.KeysOnly {
			sum += uint64(v.Entry.Value[0]) + uint64(v.Entry.Value[benchValueSize-1])
		}
	}
	benchSink += sum
}

// BenchmarkScanRuns reads runs of 100,000 keys, as a load leaves them, from end to end
// through a Visible. With together, it loads the values of a round together.
func BenchmarkScanRuns(b *testing.B) {
	const keys = 100_000
	for _, n := range []int{2, 4, 8, 13} {
		dir := b.TempDir()
		var tables []*Reader
		for _, part := range benchParts(slices.Repeat([]int{keys}, n)...) {
			r := writeRun(b, dir, part, WriterOptions{Salt: 1})
			r.warm(b)
			if len(r) > 1 {
				b.Fatal("a run of several tables")
			}
			tables = append(tables, r[0])
		}
		for _, c := range []struct {
			name     string
			opts     IterOptions
			together bool
		}{{"keys", IterOptions{KeysOnly: true}, false}, {"values", IterOptions{}, false}, {"together", IterOptions{}, true}} {
			b.Run(fmt.Sprintf("%d/%s", n, c.name), func(b *testing.B) {
				its, in := make([]Iter, n), make([]iter.Input, n)
				benchVisible(b, c.opts, c.together, func() []iter.Input {
					for i, r := range tables {
						its[i].Init(r, c.opts)
						in[i] = iter.Input{Source: &its[i]}
					}
					return in
				})
			})
		}
	}
}

// benchRaw measures one key of the table's iterator alone.
func benchRaw(b *testing.B, r run, o IterOptions) {
	var batch iter.Batch
	batch.Want = iter.BatchSize
	var it Iter
	table, sum, at := 0, uint64(0), 0
	it.Init(r[0], o)
	it.Seek(nil)
	watch := newStopwatch(4096)
	defer watch.report(b)
	for b.Loop() {
		watch.tick()
		if at == batch.N {
			at = 0
			if err := it.Fill(&batch); err != nil {
				b.Fatal(err)
			}
			if batch.N == 0 {
				table = (table + 1) % len(r)
				it.Init(r[table], o)
				it.Seek(nil)
				continue
			}
		}
		sum += uint64(batch.Entries[at].Key[21])
		if !o.KeysOnly {
			sum += uint64(batch.Entries[at].Value[0]) + uint64(batch.Entries[at].Value[benchValueSize-1])
		}
		at++
	}
	benchSink += sum
}

// BenchmarkSeek10 seeks a random key and reads ten entries.
func BenchmarkSeek10(b *testing.B) {
	dir := b.TempDir()
	for _, c := range []struct {
		name  string
		sizes []int
	}{
		{"2M", []int{2_000_000}},
		{"2M-in-6", []int{60_000, 60_000, 60_000, 60_000, 200_000, 1_560_000}},
	} {
		var runs []run
		for _, part := range benchParts(c.sizes...) {
			runs = append(runs, writeRun(b, dir, part, WriterOptions{Salt: 1}))
		}
		for _, r := range runs {
			r.warm(b)
		}
		b.Run(c.name, func(b *testing.B) { benchSeek(b, runs) })
	}
}

func benchSeek(b *testing.B, runs []run) {
	rng := rand.New(rand.NewPCG(5, 6))
	var v iter.Visible
	its := make([]Iter, len(runs))
	in := make([]iter.Input, len(runs))
	b.ReportAllocs()
	var key []byte
	sum := uint64(0)
	watch := newStopwatch(64)
	defer watch.report(b)
	for b.Loop() {
		watch.tick()
		key = benchKey(key, rng.IntN(distinct-20_000))
		for i, r := range runs {
			t := r.find(key)
			if t == nil {
				t = r[len(r)-1]
			}
			its[i].Init(t, IterOptions{})
			in[i] = iter.Input{Source: &its[i]}
		}
		v.Init(in, false, nil, nil, iter.Snapshot{At: base.SeqNumMax})
		ok := v.Seek(key)
		for range 10 {
			if !ok {
				break // end of a table of the run
			}
			sum += uint64(v.Entry.Key[0]) + uint64(v.Entry.Value[0]) + uint64(v.Entry.Value[benchValueSize-1])
			ok = v.Next()
		}
		if v.Err() != nil {
			b.Fatal(v.Err())
		}
	}
	benchSink += sum
}

// BenchmarkBuild makes a table of 32 MB.
func BenchmarkBuild(b *testing.B) {
	dir := b.TempDir()
	fs := vfs.OS()
	for _, c := range []struct {
		name string
		opts WriterOptions
	}{{"none", WriterOptions{}}, {"s2", WriterOptions{Compression: codec.S2}}, {"zstd", WriterOptions{Compression: codec.Zstd}}} {
		b.Run(c.name, func(b *testing.B) {
			var key []byte
			for b.Loop() {
				f, err := fs.Create(fs.Join(dir, "t"), vfs.CatTable)
				if err != nil {
					b.Fatal(err)
				}
				opts := c.opts
				w, err := NewWriter(f, opts)
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for ; w.EstimatedSize() < benchTableSize; n++ {
					e := benchEntry(key, n)
					key = e.Key
					if err := w.Add(e); err != nil {
						b.Fatal(err)
					}
				}
				props, err := w.Finish()
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(props.KeyBytes + props.ValueBytes))
				b.ReportMetric(float64(props.Size)/float64(props.Entries), "B/entry")
				_ = f.Close()
				if err := fs.Remove(fs.Join(dir, "t")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkMerge merges five tables and writes the result, like a compaction.
func BenchmarkMerge(b *testing.B) {
	dir := b.TempDir()
	fs := vfs.OS()
	var runs []run
	for _, part := range benchParts(80_000, 80_000, 80_000, 80_000, 80_000) {
		runs = append(runs, writeRun(b, dir, part, WriterOptions{Salt: 1}))
	}
	for _, write := range []bool{false, true} {
		b.Run(fmt.Sprintf("write=%v", write), func(b *testing.B) {
			b.SetBytes(400_000 * (22 + benchValueSize))
			for b.Loop() {
				in := make([]iter.Input, len(runs))
				for i, r := range runs {
					in[i].Source = r[0].NewIter(IterOptions{Unmapped: true})
				}
				var v iter.Visible
				v.Init(in, false, nil, nil, iter.Snapshot{At: base.SeqNumMax, AllVersions: true})
				f, err := fs.Create(fs.Join(dir, "merged"), vfs.CatTable)
				if err != nil {
					b.Fatal(err)
				}
				w, err := NewWriter(f, WriterOptions{})
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for ok := v.Seek(nil); ok; ok = v.Next() {
					if n++; write {
						if err := w.Add(*v.Entry); err != nil {
							b.Fatal(err)
						}
					}
				}
				if n != 400_000 || v.Err() != nil {
					b.Fatal(n, v.Err())
				}
				if write {
					if _, err := w.Finish(); err != nil {
						b.Fatal(err)
					}
				}
				_ = f.Close()
				if err := fs.Remove(fs.Join(dir, "merged")); err != nil {
					b.Fatal(err)
				}
				runtime.KeepAlive(w)
			}
		})
	}
}
