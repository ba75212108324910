package table

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func deletionOf(lo, hi string, seq base.SeqNum) *rangedel.List {
	return rangedel.Build([]rangedel.Deletion{{Lo: []byte(lo), Hi: []byte(hi), Seq: seq}})
}

func TestRangeTombstones_TableWithoutEntries(t *testing.T) {
	t.Parallel()
	data, props := mustBuildWith(t, nil, deletionOf("b", "m", 7), WriterOptions{Salt: 3})
	if string(props.Smallest) != "b" || string(props.Largest) != "m" || !props.LargestExclusive ||
		props.SmallestSeq != 7 || props.LargestSeq != 7 || props.Entries != 0 || props.RangeDeletions != 1 {
		t.Errorf("properties %+v", props)
	}
	r := mustOpen(t, data, ReaderOptions{})
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	if r.Deletions().Cover([]byte("l"), 7) != 7 || r.Deletions().Cover([]byte("m"), 7) != 0 {
		t.Error("the deletion does not cover what it should")
	}
	if _, _, _, ok, err := r.Get([]byte("c"), hashOf([]byte("c")), 9, nil); ok || err != nil {
		t.Errorf("Get found something: %v", err)
	}
	if newer, err := r.RangeNewer(nil, nil, 0, nil); newer || err != nil {
		t.Error("RangeNewer found a version", err)
	}
	if newer, err := r.Newest(hashOf([]byte("c")), 0); newer || err != nil {
		t.Error("Newest found a version", err)
	}
	for _, o := range []IterOptions{{}, {Reverse: true}, {Unmapped: true}} {
		it := r.NewIter(o)
		for _, key := range [][]byte{nil, []byte("c"), []byte("z")} {
			var b iter.Batch
			b.Want = 4
			it.Seek(key)
			if err := it.Fill(&b); err != nil || b.N != 0 {
				t.Errorf("%+v from %q: %d entries, %v", o, key, b.N, err)
			}
		}
	}
}

func TestRangeTombstones_ATableWithoutEntriesHasTwoSlots(t *testing.T) {
	t.Parallel()
	data, _ := mustBuildWith(t, nil, deletionOf("b", "m", 7), WriterOptions{Salt: 3})
	f, err := decodeFooter(data[len(data)-footerSize:], int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	f.hash.slots++
	f.propsLen -= int64(f.hash.slotBytes) // so that the parts still fit the file
	if err := f.check(f.size, 0); !errors.Is(err, base.ErrCorrupt) {
		t.Errorf("with %d slots: %v", f.hash.slots, err)
	}
}

func TestRangeTombstones_NoEndTakesNoBytes(t *testing.T) {
	t.Parallel()
	last := bytes.Repeat([]byte{0xff}, base.MaxKeySize)
	for name, entries := range map[string][]base.Entry{"alone": nil, "behind entries": {{Key: []byte("a"), Seq: 3, Meta: base.Meta{Kind: base.KindSet}}}} {
		list := deletionOf("b", string(base.EndOfKeys), 7) // a copy
		data, props := mustBuildWith(t, entries, list, WriterOptions{Salt: 3})
		if len(data) > 8<<10 {
			t.Errorf("%s: the table has %d bytes", name, len(data))
		}
		r := mustOpen(t, data, ReaderOptions{})
		if err := r.Verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range []Properties{props, r.Properties()} {
			if &p.Largest[0] != &base.EndOfKeys[0] || !p.LargestExclusive {
				t.Errorf("%s: the largest bound has %d bytes, exclusive %v", name, len(p.Largest), p.LargestExclusive)
			}
		}
		if r.Deletions().Cover(last, 7) != 7 || r.HeapBytes() > 8<<10 {
			t.Errorf("%s: the last key is covered by %d, the reader takes %d bytes", name, r.Deletions().Cover(last, 7), r.HeapBytes())
		}
	}
}

func TestReader_HeapBytesIncludeRangeTombstones(t *testing.T) {
	t.Parallel()
	const many = 1000
	lists := make([]*rangedel.List, many)
	for i := range lists {
		lists[i] = deletionOf(fmt.Sprintf("%0100d", 2*i), fmt.Sprintf("%0100d", 2*i+1), 7)
	}
	data, _ := mustBuildWith(t, nil, rangedel.Merge(lists...), WriterOptions{Salt: 3})
	r := mustOpen(t, data, ReaderOptions{})
	if got, want := r.HeapBytes(), r.Deletions().Bytes()+r.delsLen; r.delsLen < many || got < want {
		t.Errorf("%d bytes, but range tombstones take %d", got, want)
	}
}

func TestAddDeletions_MergesListsAndRefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	f, err := memfs.New().Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*rangedel.List{deletionOf("a", "f", 3), nil, deletionOf("c", "k", 5)} {
		if err := w.AddDeletions(l); err != nil {
			t.Fatal(err)
		}
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(f, props.Size, "t", ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := rangedel.Merge(deletionOf("a", "f", 3), deletionOf("c", "k", 5))
	if !bytes.Equal(r.Deletions().AppendTo(nil), want.AppendTo(nil)) {
		t.Errorf("%d fragments", r.Deletions().Len())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for name, l := range map[string]*rangedel.List{
		"a number too large": deletionOf("a", "b", base.SeqNumMax+1),
		"number 0":           deletionOf("a", "b", 0),
		"a long key":         deletionOf("a", string(bytes.Repeat([]byte{'b'}, base.MaxKeySize+1)), 1),
	} {
		w, err := NewWriter(f, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.AddDeletions(l); err == nil {
			t.Errorf("%s was accepted", name)
		}
		if _, err := w.Finish(); err == nil || errors.Is(err, ErrEmpty) {
			t.Errorf("%s: Finish says %v", name, err)
		}
	}
}

func TestAdd_RefusesARangeTombstone(t *testing.T) {
	t.Parallel()
	f, err := memfs.New().Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := base.Entry{Key: []byte("a"), Value: []byte("b"), Seq: 1, Meta: base.Meta{Kind: base.KindDeleteRange}}
	if err := w.Add(e); err == nil {
		t.Error("a range deletion was added as an entry")
	}
}
