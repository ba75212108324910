package table

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

// TestIter_BatchesOfEvenKeysArePlain: without it, iterators would be slower, and no other
// test would notice.
func TestIter_BatchesOfEvenKeysArePlain(t *testing.T) {
	t.Parallel()
	entries := manyEntries(1000)
	data, _ := mustBuild(t, entries, WriterOptions{BlockSize: 1 << 10})
	for _, reverse := range []bool{false, true} {
		it := mustOpen(t, data, ReaderOptions{}).NewIter(IterOptions{Reverse: reverse})
		it.Seek(nil)
		b := iter.Batch{Want: iter.BatchSize}
		for n := 0; n < len(entries); n += b.N {
			if err := it.Fill(&b); err != nil || b.N == 0 {
				t.Fatal(n, err)
			}
			if b.Plain == reverse { // backward, nothing needs to know
				t.Fatalf("reverse %v, batch from entry %d on: plain is %v", reverse, n, b.Plain)
			}
		}
	}
}

// TestIter_ABatchIsNotPlainIfTwoBlocksDivideAKey: the last key of a block may be the first
// of the next one.
func TestIter_ABatchIsNotPlainIfTwoBlocksDivideAKey(t *testing.T) {
	t.Parallel()
	entries := []base.Entry{set("key-1", 2), set("key-2", 2), set("key-2", 1), set("key-3", 2)}
	for i := range entries {
		entries[i].Value = bytes.Repeat([]byte{1}, 40)
	}
	data, _ := mustBuild(t, entries, WriterOptions{BlockSize: 80})
	r := mustOpen(t, data, ReaderOptions{})
	if r.blocks != 2 || r.entryOf(0).count != 2 {
		t.Fatalf("%d blocks, the first with %d entries", r.blocks, r.entryOf(0).count)
	}
	it := r.NewIter(IterOptions{})
	it.Seek(nil)
	b := iter.Batch{Want: iter.BatchSize}
	if err := it.Fill(&b); err != nil || b.N != len(entries) {
		t.Fatal(b.N, err)
	}
	if b.Plain {
		t.Error("a batch with two versions of a key is plain")
	}
}

// TestIter_KeysAreWhole: short prefixes and suffixes are written by whole words, up to the
// longest ones, and the last key of a buffer as well.
func TestIter_KeysAreWhole(t *testing.T) {
	t.Parallel()
	for prefix := range shortPrefix + 10 {
		for suffix := 1; suffix <= 10; suffix++ {
			var entries []base.Entry
			for i := range 40 {
				key := append(bytes.Repeat([]byte{'p'}, prefix), fmt.Sprintf("%0*d", suffix, i)...)
				if suffix == 1 {
					key[prefix] = byte(i)
				}
				entries = append(entries, set(string(key), base.SeqNum(1+i)))
			}
			data, _ := mustBuild(t, entries, WriterOptions{})
			it := mustOpen(t, data, ReaderOptions{}).NewIter(IterOptions{})
			it.Seek(nil)
			b := iter.Batch{Want: iter.BatchSize}
			for n := 0; n < len(entries); n += b.N {
				if err := it.Fill(&b); err != nil || b.N == 0 {
					t.Fatal(prefix, suffix, n, err)
				}
				for i, e := range b.Entries[:b.N] {
					if !sameEntry(e, entries[n+i]) {
						t.Fatalf("prefix of %d, suffix of %d: %s, want %s", prefix, suffix, describe(e), describe(entries[n+i]))
					}
				}
			}
		}
	}
}

// TestIter_BatchesArePlainOnlyIfAllEntriesStay: user bytes do not matter.
func TestIter_BatchesArePlainOnlyIfAllEntriesStay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(i int, e *base.Entry)
		plain  bool
	}{
		{"values", func(int, *base.Entry) {}, true},
		{"user bytes", func(i int, e *base.Entry) { e.Meta.User = byte(i) }, true},
		{"all expire", func(i int, e *base.Entry) { e.Meta.ExpiresAt = 1000 }, false},
		{"one expires", func(i int, e *base.Entry) { e.Meta.ExpiresAt = uint64(i / 9) }, false},
		{"all deleted", func(_ int, e *base.Entry) { e.Meta.Kind, e.Value = base.KindDelete, nil }, false},
		{"one deleted", func(i int, e *base.Entry) {
			if i == 9 {
				e.Meta.Kind, e.Value = base.KindDelete, nil
			}
		}, false},
	} {
		entries := manyEntries(10)
		for i := range entries {
			c.change(i, &entries[i])
		}
		data, _ := mustBuild(t, entries, WriterOptions{})
		it := mustOpen(t, data, ReaderOptions{}).NewIter(IterOptions{})
		it.Seek(nil)
		b := iter.Batch{Want: iter.BatchSize}
		if err := it.Fill(&b); err != nil || b.N != len(entries) {
			t.Fatal(c.name, b.N, err)
		}
		if b.Plain != c.plain || b.Plain && !b.IsPlain() {
			t.Errorf("%s: plain is %v, want %v", c.name, b.Plain, c.plain)
		}
	}
}
