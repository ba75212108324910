package table

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/vfs"
)

// An entrySize holds the lengths of keys and values in a benchmark of whole tables.
type entrySize struct{ key, value int }

func (s entrySize) String() string { return fmt.Sprintf("%d+%d", s.key, s.value) }

var entrySizes = []entrySize{{16, 32}, {22, 128}}

// writeSized makes a table of 32 MB with entries of one size and returns their
// number.
func writeSized(b *testing.B, f vfs.File, s entrySize) (Properties, int) {
	w, err := NewWriter(f, WriterOptions{Salt: 1, HashSeed: testSeed})
	if err != nil {
		b.Fatal(err)
	}
	noise, key := benchNoise(), make([]byte, s.key)
	for i := range key {
		key[i] = 'k'
	}
	n := 0
	for ; n&63 != 0 || w.EstimatedSize() < benchTableSize; n++ {
		for i, x := len(key)-1, n*7; x > 0; i, x = i-1, x/10 {
			key[i] = '0' + byte(x%10)
		}
		at := int(uint64(n) * 7919 % uint64(len(noise)-s.value))
		e := base.Entry{
			Key: key, Value: noise[at : at+s.value],
			Seq: base.SeqNum(1 + uint64(n)*2654435761%2000), Meta: base.Meta{Kind: base.KindSet},
		}
		for i := 0; i < len(key) && key[i] == 'k'; i++ {
			key[i] = '0'
		}
		if err := w.Add(e); err != nil {
			b.Fatal(err)
		}
	}
	props, err := w.Finish()
	if err != nil {
		b.Fatal(err)
	}
	return props, n
}

// BenchmarkRead reads all entries of a warm table, keys and values, through the
// table's iterator alone. One operation is one entry.
func BenchmarkRead(b *testing.B) {
	dir, fs := b.TempDir(), vfs.OS()
	for _, s := range entrySizes {
		f, err := fs.Create(fs.Join(dir, s.String()), vfs.CatTable)
		if err != nil {
			b.Fatal(err)
		}
		props, _ := writeSized(b, f, s)
		r, err := Open(f, props.Size, s.String(), ReaderOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = r.Close() })
		run{r}.warm(b)
		for _, o := range []IterOptions{{}, {Reverse: true}, {Unmapped: true}} {
			b.Run(fmt.Sprintf("%s/reverse=%v/unmapped=%v", s, o.Reverse, o.Unmapped), func(b *testing.B) {
				benchRead(b, r, o, s)
			})
		}
	}
}

func benchRead(b *testing.B, r *Reader, o IterOptions, s entrySize) {
	b.SetBytes(int64(s.key + s.value))
	b.ReportAllocs()
	var it Iter
	var batch iter.Batch
	batch.Want = iter.BatchSize
	it.Init(r, o)
	it.Seek(nil)
	sum := 0
	for left := b.N; left > 0; left -= batch.N {
		if err := it.Fill(&batch); err != nil {
			b.Fatal(err)
		}
		if batch.N == 0 {
			it.Seek(nil)
		}
		for i := range batch.N {
			k, v := batch.Entries[i].Key, batch.Entries[i].Value
			sum += int(k[len(k)-1]) + int(v[0]) + int(v[len(v)-1])
		}
	}
	benchSink += uint64(sum)
}

// BenchmarkBuildSized makes tables of 32 MB. One operation is one entry.
func BenchmarkBuildSized(b *testing.B) {
	dir, fs := b.TempDir(), vfs.OS()
	for _, s := range entrySizes {
		b.Run(s.String(), func(b *testing.B) {
			b.SetBytes(int64(s.key + s.value))
			for done := 0; done < b.N; {
				f, err := fs.Create(fs.Join(dir, "t"), vfs.CatTable)
				if err != nil {
					b.Fatal(err)
				}
				_, n := writeSized(b, f, s)
				done += n
				_ = f.Close()
				if err := fs.Remove(fs.Join(dir, "t")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
