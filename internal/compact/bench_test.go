package compact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

// The benchmarks use keys of 22 bytes and values of 128 bytes that do not compress, on the
// disk of the machine.
const benchValueSize = 128

func benchEntries(n int) []base.Entry {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	all := make([]base.Entry, n)
	for i := range all {
		at := rng.IntN(len(noise) - benchValueSize)
		all[i] = base.Entry{
			Key: fmt.Appendf(nil, "vsz=00128-k=%010d", i), Value: noise[at : at+benchValueSize],
			Seq: base.SeqNum(1 + i%2000), Meta: base.Meta{Kind: base.KindSet},
		}
	}
	return all
}

// benchRun runs jobs and removes their outputs.
func benchRun(b *testing.B, job Job) {
	b.Helper()
	fs := vfs.OS()
	dir := b.TempDir()
	num := base.FileNum(100)
	job.NewFile = func() (NewFile, error) {
		num++
		f, err := fs.Create(fs.Join(dir, base.TableName(num)), vfs.CatTable)
		return NewFile{Num: num, File: f, Salt: uint64(num)}, err
	}
	job.Rules, job.TableSize = seeAll, 32<<20
	result, err := Run(job)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range result.Files {
		if err := fs.Remove(fs.Join(dir, base.TableName(n))); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMerge merges five tables whose keys interleave at random.
func BenchmarkMerge(b *testing.B) {
	const n = 400_000
	all := benchEntries(n)
	rng := rand.New(rand.NewPCG(3, 4))
	parts := make([][]base.Entry, 5)
	for _, e := range all {
		i := rng.IntN(len(parts))
		parts[i] = append(parts[i], e)
	}
	fs := vfs.OS()
	dir := b.TempDir()
	var readers []*table.Reader
	for i, part := range parts {
		name := fs.Join(dir, base.TableName(base.FileNum(i)))
		f, err := fs.Create(name, vfs.CatTable)
		if err != nil {
			b.Fatal(err)
		}
		w, err := table.NewWriter(f, table.WriterOptions{Salt: 1})
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range part {
			if err := w.Add(e); err != nil {
				b.Fatal(err)
			}
		}
		p, err := w.Finish()
		if err != nil {
			b.Fatal(err)
		}
		r, err := table.Open(f, p.Size, name, table.ReaderOptions{})
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		readers = append(readers, r)
	}
	b.SetBytes(n * (22 + benchValueSize))
	for b.Loop() {
		var sources []iter.Source
		for _, r := range readers {
			sources = append(sources, r.NewIter(table.IterOptions{Unmapped: true}))
		}
		benchRun(b, Job{Sources: sources})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}

// offHeap is the memory that a database uses.
type offHeap struct{}

func (offHeap) Alloc(n int) ([]byte, error) { return vfs.Alloc(n) }

func (offHeap) Free(p []byte) {
	if err := vfs.Free(p); err != nil {
		panic(err)
	}
}

// BenchmarkFlush writes a memtable, whose keys came in random order, to tables.
func BenchmarkFlush(b *testing.B) {
	const n = 400_000
	all := benchEntries(n)
	shuffled := slices.Clone(all)
	rng := rand.New(rand.NewPCG(3, 4))
	rng.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	mem := memtable.New(memtable.Options{Memory: offHeap{}, SizeHint: n})
	defer mem.Release()
	for i, e := range shuffled {
		if err := mem.Set(e.Key, e.Value, base.Hash(e.Key, 0), e.Meta, base.SeqNum(i+1)); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(n * (22 + benchValueSize))
	for b.Loop() {
		var it memtable.Iter
		it.Init(mem, false)
		benchRun(b, Job{Sources: []iter.Source{&it}})
		it.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/key")
}
