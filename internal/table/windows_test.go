package table

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An iterator that moves forward in a table returns to parts that it has read.
func TestUnmapped_ReadsNothingTwiceThatItStillHas(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.NewVolatile())
	open := func(name string) *Reader {
		f, err := disk.Create(name, vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		var entries []base.Entry
		for i := range 1000 {
			entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%04d", i), Value: []byte(name), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
		}
		props, err := build(f, entries, nil, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(f, props.Size, name, ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		return r
	}
	a, b := open("a"), open("b")
	var it Iter
	step := 0
	for _, c := range []struct {
		in       *Reader
		unmapped bool
		reads    bool
	}{{a, true, true}, {a, true, false}, {b, true, true}, {a, false, false}, {a, true, true}, {a, true, false}} {
		step++
		it.Init(c.in, IterOptions{Unmapped: c.unmapped})
		reads := 0
		disk.Observe(func(op vfs.Op) {
			if op.Kind == vfs.OpRead {
				reads++
			}
		})
		it.Seek(fmt.Appendf(nil, "%04d", 100*step))
		batch := iter.Batch{Want: 1}
		if err := it.Fill(&batch); err != nil || batch.N != 1 {
			t.Fatalf("step %d: %d entries, %v", step, batch.N, err)
		}
		disk.Observe(nil)
		if got := string(batch.Entries[0].Key) + string(batch.Entries[0].Value); got != fmt.Sprintf("%04d%s", 100*step, c.in.name) {
			t.Errorf("step %d: %q", step, got)
		}
		if reads > 0 != c.reads {
			t.Errorf("step %d: %d reads", step, reads)
		}
	}
}

// Keys and values alternate in the file. A read of one kind omits the other.
func TestUnmapped_LargeReadsReadNoByteTwice(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 16, 400, 100_000} { // a pointer has 16 bytes
		disk := faultfs.New(memfs.NewVolatile())
		f, err := disk.Create("t", vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		var entries []base.Entry
		for i := range min(60_000, 8_000_000/max(size, 1)) {
			entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%016d", i), Value: make([]byte, size), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
		}
		props, err := build(f, entries, nil, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(f, props.Size, "t", ReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		reads, read := int64(0), int64(0)
		disk.Observe(func(op vfs.Op) {
			if op.Kind == vfs.OpRead {
				reads++
				read += op.Len
			}
		})
		it := r.NewIter(IterOptions{Unmapped: true})
		it.Seek(nil)
		seen, batch := 0, iter.Batch{Want: iter.BatchSize}
		for batch.N = 1; batch.N > 0; seen += batch.N {
			if err := it.Fill(&batch); err != nil {
				t.Fatal(err)
			}
		}
		if seen != len(entries) || read > r.dataEnd || reads > 4+r.dataEnd/(windowSize/4) {
			t.Errorf("values of %d bytes: %d of %d entries by %d reads of %d bytes in all, where they take %d",
				size, seen, len(entries), reads, read, r.dataEnd)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A merge has two windows of values for each of its inputs. A window of a large value takes
// no more memory than the value.
func TestUnmapped_AWindowOfALargeValueIsNotLarger(t *testing.T) {
	t.Parallel()
	const size = 2 << 20
	var entries []base.Entry
	for i := range 6 {
		entries = append(entries, base.Entry{Key: fmt.Appendf(nil, "%d", i), Value: make([]byte, size+i), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
	}
	data, _ := mustBuild(t, entries, WriterOptions{})
	for _, reverse := range []bool{false, true} {
		it := mustOpen(t, data, ReaderOptions{}).NewIter(IterOptions{Unmapped: true, Reverse: reverse})
		it.Seek(nil)
		for batch := (iter.Batch{Want: 1, N: 1}); batch.N > 0; {
			if err := it.Fill(&batch); err != nil {
				t.Fatal(err)
			}
		}
		for i := range it.windows.vals {
			if n := cap(it.windows.vals[i].buf); n < size || n > size+len(entries) {
				t.Errorf("reverse %t: a window takes %d bytes for values of %d", reverse, n, size)
			}
		}
		if n := cap(it.windows.keys.buf); n > windowSize {
			t.Errorf("reverse %t: the window of keys takes %d bytes", reverse, n)
		}
	}
}
