package manifest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// FuzzManifestEdit decodes any bytes as an edit: the result is an error, or an
// edit that encodes to the same bytes. Tables of older databases encode in a newer way, which
// must decode to the same edit.
func FuzzManifestEdit(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	f.Add(firstState().snapshot().AppendTo(nil))
	for range 8 {
		f.Add(testEdit(rng, State{}).AppendTo(nil))
	}
	f.Add(treeState(rng, 40).snapshot().AppendTo(nil))
	f.Add([]byte{})
	f.Add(manyKeyspaces(20).AppendTo(nil))
	f.Add(Edit{Unknown: manyFields(3), OptionalFeatures: manyNames(3)}.AppendTo(nil))
	f.Add(appendField(nil, tagSpans, 1<<30))
	f.Add(append(appendField(nil, tagAddTables, 4), 0xff, 0xff, 0xff, 0xff))
	f.Add(appendItems(nil, tagAddTables, []*Table{{Smallest: []byte("a"), Largest: []byte("b")}}, func(dst []byte, t *Table) []byte {
		return append(appendTable(dst, t), make([]byte, longRefSize)...)
	}))
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := DecodeEdit(p)
		if err != nil {
			if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, base.ErrVersion) {
				t.Fatalf("%v is neither corruption nor unknown", err)
			}
			return
		}
		got := e.AppendTo(nil)
		if newer, err := DecodeEdit(got); err != nil || !reflect.DeepEqual(newer, e) {
			t.Fatalf("%+v encodes to %x, which is %+v: %v", e, got, newer, err)
		}
		refers := func(t *Table) bool { return t.Jumps > 0 || t.Values.Len() > 0 }
		if !slices.ContainsFunc(e.AddTables, refers) && !bytes.Equal(got, p) {
			t.Fatalf("%+v encodes to %x, not %x", e, got, p)
		}
		before := firstState()
		after, err := before.Apply(e)
		if err != nil && !same(after, before) {
			t.Fatalf("a refused edit changed the state to %+v", after)
		}
		must(t, after.Version.check())
		again, err := State{}.Apply(after.snapshot())
		if err != nil || !same(again, after) {
			t.Fatalf("a snapshot of %+v makes %+v: %v", after, again, err)
		}
	})
}

// FuzzManifestLoad loads a manifest whose records are any bytes, with valid
// framing and checksums, and then damage at one place.
func FuzzManifestLoad(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	snapshot := firstState().snapshot().AppendTo(nil)
	f.Add(snapshot, testEdit(rng, firstState()).AppendTo(nil), uint32(0), byte(0))
	f.Add(snapshot, []byte{}, uint32(record.Start+8), byte(1))
	tree := treeState(rng, 20)
	f.Add(tree.snapshot().AppendTo(nil), testEdit(rng, tree).AppendTo(nil), uint32(0), byte(0))
	f.Add([]byte{}, []byte{}, uint32(5), byte(1))
	f.Fuzz(func(t *testing.T, first, second []byte, at uint32, flip byte) {
		b := record.NewBuilder(1, 100, nil)
		b.Record(first, 0)
		b.Record(second, 0)
		b.Finish(record.Mark, b.Offset())
		frames, _ := b.Sealed()
		size := record.Start + len(frames) + 100
		file := record.AppendHeader(nil, record.Header{Type: record.TypeManifest,
			Number: 1, File: 1, Salt: 1, Size: int64(size)})
		file = append(append(file, frames...), make([]byte, 100)...)
		file[int(at)%size] ^= flip

		fs := memfs.NewVolatile()
		must(t, fs.MkdirAll(testDir))
		h, err := fs.Create(fs.Join(testDir, FileName(1)), vfs.CatManifest)
		must(t, err)
		_, err = h.WriteAt(file, 0)
		must(t, err)
		must(t, h.Close())
		_, state, err := Load(fs, testDir, false, testRandom(1), nil)
		switch {
		case errors.Is(err, base.ErrCorrupt), errors.Is(err, base.ErrVersion):
			return
		case err != nil:
			t.Fatalf("%v is neither corruption nor unknown", err)
		}
		// The loaded state loads again, and equals what the edits say.
		_, again, err := Load(fs, testDir, false, testRandom(1), nil)
		if err != nil || !same(state, again) {
			t.Fatalf("%+v, then %+v: %v", state, again, err)
		}
		one, err := DecodeEdit(first)
		must(t, err)
		two, err := DecodeEdit(second)
		must(t, err)
		want, err := State{}.Apply(one)
		must(t, err)
		want, err = want.Apply(two)
		must(t, err)
		if !same(state, want) {
			t.Fatalf("loaded %+v, want %+v", state, want)
		}
	})
}

// FuzzFileName parses any name. Parsing fails, or the name is the only one for its
// number. No name is of two kinds.
func FuzzFileName(f *testing.F) {
	for _, name := range []string{FileName(1), FileName(1<<63 - 1), FileName(1) + tempSuffix, "MANIFEST-1", "MANIFEST-0000001", "000001.log", "000001.MANIFEST-000001"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		number, ok := ParseFileName(name)
		if ok && FileName(number) != name {
			t.Fatalf("%q is manifest %d, which is %q", name, number, FileName(number))
		}
		if ok && isTemp(name) || ok && isData(name) || isTemp(name) && isData(name) {
			t.Fatalf("%q is of two kinds", name)
		}
	})
}
