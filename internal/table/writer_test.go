package table

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/noise"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func set(key string, seq base.SeqNum) base.Entry {
	return base.Entry{Key: []byte(key), Value: []byte("v"), Seq: seq, Meta: base.Meta{Kind: base.KindSet}}
}

func newTestWriter(t *testing.T) *Writer {
	f, err := memfs.New().Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWriter_RefusesEntriesOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]base.Entry{
		{set("b", 1), set("a", 1)},
		{set("a", 1), set("a", 1)},
		{set("a", 1), set("a", 2)},
		{set("ab", 1), set("a", 9)},
		{set("abcdefgh1", 1), set("abcdefgh0", 1)},
	} {
		w := newTestWriter(t)
		if err := w.Add(c[0]); err != nil {
			t.Fatal(err)
		}
		err := w.Add(c[1])
		if err == nil || !strings.Contains(err.Error(), "added after") {
			t.Errorf("%s after %s: %v", describe(c[1]), describe(c[0]), err)
		}
		if again := w.Add(set("z", 1)); again != err {
			t.Errorf("the writer went on after an error: %v", again)
		}
		if _, finish := w.Finish(); finish != err {
			t.Errorf("the writer finished after an error: %v", finish)
		}
	}
}

func TestWriter_RefusesWhatTheFormatCannotHold(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]base.Entry{
		"empty key":    set("", 1),
		"long key":     set(strings.Repeat("k", base.MaxKeySize+1), 1),
		"large number": set("k", base.SeqNumMax+1),
		"kind 0":       {Key: []byte("k"), Seq: 1},
		"kind 9":       {Key: []byte("k"), Seq: 1, Meta: base.Meta{Kind: 9}},
	} {
		if err := newTestWriter(t).Add(e); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	if _, err := newTestWriter(t).Finish(); !errors.Is(err, ErrEmpty) {
		t.Errorf("an empty table: %v", err)
	}
	if err := newTestWriter(t).AddPointer(set("k", 1), ValueFileRef{1, 1}); err == nil {
		t.Error("a pointer that is none was accepted")
	}
	for _, o := range []WriterOptions{{BlockSize: -1}, {BlockSize: 1 << 30}, {Compression: 9}} {
		if _, err := NewWriter(nil, o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestWriter_CountsPointersByValueFile(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	f, err := fs.Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{HashSeed: testSeed})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		e := set(fmt.Sprintf("%03d", i), 1)
		e.Meta.Kind = base.KindPointer
		if err := w.AddPointer(e, ValueFileRef{File: uint64(9 - i%3), Bytes: uint64(i)}); err != nil {
			t.Fatal(err)
		}
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	want := []ValueFileRef{{7, 1650}, {8, 1617}, {9, 1683}}
	r, err := Open(f, props.Size, "t", ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got := r.Properties().ValueFiles; fmt.Sprint(got) != fmt.Sprint(want) || r.Properties().Pointers != 100 {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
}

func TestWriter_ValueLargerThanATable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 9))
	large := bytes.Repeat(noise.Bytes(rng, 1<<10), 5<<10) // 5 MiB
	entries := []base.Entry{set("a", 1), set("b", 2), set("c", 3)}
	entries[1].Value = large
	for _, how := range []codec.ID{codec.None, codec.S2} {
		data, _ := mustBuild(t, entries, WriterOptions{BlockSize: 300 << 10, Compression: how})
		r := mustOpen(t, data, ReaderOptions{})
		for _, e := range entries {
			v, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), 9, nil)
			if !ok || err != nil || !bytes.Equal(v, e.Value) {
				t.Fatalf("%s: %d bytes, %v, %v", e.Key, len(v), ok, err)
			}
		}
		checkScans(r, entries, rng, t.Fatalf)
	}
}

func TestWriter_KeepsNoCallerMemory(t *testing.T) {
	t.Parallel()
	f, err := memfs.New().Create("t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{BlockSize: 400 << 10, HashSeed: testSeed})
	if err != nil {
		t.Fatal(err)
	}
	sizes := []int{10, soloMin + 1, 5, 3 << 20, soloMin}
	for i, n := range sizes {
		e := base.Entry{Key: []byte{'a' + byte(i)}, Value: bytes.Repeat([]byte{byte(i)}, n), Seq: 1, Meta: base.Meta{Kind: base.KindSet}}
		if err := w.Add(e); err != nil {
			t.Fatal(err)
		}
		clear(e.Value)
		clear(e.Key)
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(f, props.Size, "t", ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, n := range sizes {
		key := []byte{'a' + byte(i)}
		v, _, _, ok, err := r.Get(key, hashOf(key), 1, nil)
		if !ok || err != nil || !bytes.Equal(v, bytes.Repeat([]byte{byte(i)}, n)) {
			t.Errorf("%s: %d bytes, %v, %v", key, len(v), ok, err)
		}
	}
}

// Each file system call of the writer and then of the reader fails once. A table
// that is finished all the same must be whole.
func TestWriter_FaultsAreReported(t *testing.T) {
	t.Parallel()
	var entries []base.Entry
	for i := range 1500 {
		e := set(fmt.Sprintf("key-%06d", i), base.SeqNum(i))
		e.Value = bytes.Repeat([]byte{byte(i)}, 4000)
		entries = append(entries, e)
	}
	boom := errors.New("boom")
	for nth := int64(1); ; nth += int64(dose.Short(5, 1)) {
		fs := faultfs.New(memfs.NewVolatile())
		f, err := fs.Create("t", vfs.CatTable)
		if err != nil {
			t.Fatal(err)
		}
		fault := fs.Add(faultfs.Rule{Nth: nth, Err: boom})
		props, err := build(f, entries, nil, WriterOptions{})
		switch {
		case err != nil && !errors.Is(err, boom):
			t.Fatalf("call %d: %v", nth, err)
		case err == nil:
			checkReadsUnderFault(t, f, props, entries, boom, nth)
		}
		if fault.Fired() == 0 {
			return
		}
	}
}

func checkReadsUnderFault(t *testing.T, f vfs.File, props Properties, entries []base.Entry, boom error, nth int64) {
	r, err := Open(f, props.Size, "t", ReaderOptions{})
	if err != nil {
		if !errors.Is(err, boom) {
			t.Fatalf("call %d: open: %v", nth, err)
		}
		return
	}
	defer func() { _ = r.Close() }() // the fault may be in Close
	for _, o := range []IterOptions{{}, {Unmapped: true}} {
		it := r.NewIter(o)
		it.Seek(nil)
		got, err := drain(it, rand.New(rand.NewPCG(1, 2)), 1<<20)
		switch {
		case err != nil && !errors.Is(err, boom):
			t.Fatalf("call %d: %v", nth, err)
		case err == nil && len(got) != len(entries):
			t.Fatalf("call %d: %d entries and no error", nth, len(got))
		}
	}
	for _, e := range entries[:5] {
		v, _, _, ok, err := r.Get(e.Key, hashOf(e.Key), base.SeqNumMax, nil)
		if err == nil && (!ok || !bytes.Equal(v, e.Value)) || err != nil && !errors.Is(err, boom) {
			t.Fatalf("call %d: get %s: %v, %v", nth, e.Key, ok, err)
		}
	}
}

func TestWriter_CompressionChangesBetweenBlocks(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	f, err := fs.Create("/t", vfs.CatTable)
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f, WriterOptions{Salt: 1, HashSeed: testSeed, Compression: codec.None})
	if err != nil {
		t.Fatal(err)
	}
	value := strings.Repeat("compress me ", 20)
	ids := []codec.ID{codec.None, codec.S2, codec.S2, codec.Zstd, codec.None}
	for i, id := range ids {
		if err := w.SetCompression(id); err != nil {
			t.Fatal(err)
		}
		for j := range 100 {
			e := set(fmt.Sprintf("key-%d-%03d", i, j), 5)
			e.Value = []byte(value)
			if err := w.Add(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	props, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	plain := int64(2 * 100 * len(value))
	if got := int64(props.ValuePartBytes); got < plain || got > plain+plain/2 {
		t.Errorf("values take %d bytes, want %d and a little", got, plain)
	}
	r, err := Open(f, props.Size, "t", ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(); err != nil {
		t.Error(err)
	}
	it := r.NewIter(IterOptions{})
	it.Seek(nil)
	got, err := drain(it, rand.New(rand.NewPCG(1, 1)), 1000)
	if err != nil || len(got) != 100*len(ids) {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	for _, e := range got {
		if string(e.Value) != value {
			t.Fatalf("%s has another value", e.Key)
		}
	}
}
