package rangedel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestCodec_DecodesWhatItEncoded(t *testing.T) {
	t.Parallel()
	each(t, 40, func(t *testing.T, rng *rand.Rand, m model, key func(*rand.Rand) []byte) {
		b := Build(m).AppendTo(nil)
		l, err := Decode(b, 0)
		if err != nil {
			t.Fatal(err)
		}
		checkList(t, l, m, rng, key)
		for n := 1; n < len(b); n++ {
			if _, err := Decode(b[:n], 7); !errors.Is(err, base.ErrCorrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(b), err)
			}
		}
	})
}

func TestCodec_StoresNothingForTheEndOfKeys(t *testing.T) {
	t.Parallel()
	l := Build([]Deletion{{[]byte("a"), base.EndOfKeys, 5}, {[]byte("k"), base.EndOfKeys, 9}})
	b := l.AppendTo(nil)
	if want := []byte{2, 1, 'a', 1, 'k', 1, 5, 0, 0, 2, 9, 4}; !bytes.Equal(b, want) {
		t.Fatalf("encoded as %x, want %x", b, want)
	}
	l, err := Decode(b, 0)
	if err != nil {
		t.Fatal(err)
	}
	if hi := l.At(1).Hi; &hi[0] != &base.EndOfKeys[0] {
		t.Error("the end is a copy")
	}
	if got := l.Cover(lastKey, base.SeqNumMax); got != 9 {
		t.Errorf("%d covers the last key, want 9", got)
	}
}

func TestCodec_RefusesInvalidLists(t *testing.T) {
	t.Parallel()
	for name, src := range map[string][]byte{
		"no fragment":                       {0},
		"a first key left out":              {1, 0, 1, 'b', 1, 5},
		"a range of no key":                 {1, 1, 'b', 1, 'b', 1, 5},
		"a range behind one without an end": {2, 1, 'a', 0, 1, 5, 1, 'b', 1, 'c', 1, 6},
		"a range at the end of one without": {2, 1, 'a', 0, 1, 5, 0, 1, 'c', 1, 6},
		"two without an end":                {2, 1, 'a', 0, 1, 5, 0, 0, 1, 6},
		"an end of all keys spelt out":      slices.Concat(binary.AppendUvarint([]byte{1, 1, 'a'}, uint64(len(base.EndOfKeys))), base.EndOfKeys, []byte{1, 5}),
		"no number":                         {1, 1, 'a', 1, 'b', 0},
		"number 0":                          {1, 1, 'a', 1, 'b', 1, 0},
		"a number twice":                    {1, 1, 'a', 1, 'b', 2, 5, 0},
		"numbers below 1":                   {1, 1, 'a', 1, 'b', 2, 5, 5},
		"a long varint":                     {1, 1, 'a', 1, 'b', 1, 0x85, 0},
		"a byte too many":                   {1, 1, 'a', 1, 'b', 1, 5, 0},
		"a key spelt out":                   {2, 1, 'a', 1, 'b', 1, 5, 1, 'b', 1, 'c', 1, 6},
		"fragments in the wrong order":      {2, 1, 'b', 1, 'c', 1, 5, 1, 'a', 1, 'b', 1, 6},
		"touching with the same number":     {2, 1, 'a', 1, 'b', 1, 5, 0, 1, 'c', 1, 5},
		"more fragments than bytes":         {0xff, 0xff, 0x03, 1, 'a', 1, 'b', 1, 5},
	} {
		var c *base.CorruptionError
		if _, err := Decode(src, 100); !errors.As(err, &c) || c.Offset < 100 || c.Offset > int64(100+len(src)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, src := range [][]byte{{2, 1, 'a', 1, 'b', 1, 5, 0, 1, 'c', 1, 6}, {2, 1, 'a', 1, 'b', 1, 5, 0, 0, 1, 6}, {1, 1, 'a', 0, 1, 5}} {
		if _, err := Decode(src, 0); err != nil {
			t.Errorf("%x: %v", src, err)
		}
	}
}

// FuzzDecode checks that Decode reports corruption within the source, or a list
// that encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 1, 'a', 1, 'b', 1, 5})
	f.Add([]byte{2, 1, 'a', 1, 'b', 1, 5, 0, 1, 'c', 3, 9, 1, 2})
	f.Add([]byte{1, 1, 'a', 0, 1, 5})
	f.Add([]byte{2, 1, 'a', 1, 'k', 1, 5, 0, 0, 2, 9, 4})
	f.Add([]byte{2, 1, 'a', 0, 1, 5, 0, 0, 1, 6})
	f.Add(Build(randomModel(rand.New(rand.NewPCG(1, 1)), keyMakers[1], 20)).AppendTo(nil))
	f.Fuzz(func(t *testing.T, src []byte) {
		l, err := Decode(src, 10)
		if err != nil {
			var c *base.CorruptionError
			if !errors.As(err, &c) || c.Offset < 10 || c.Offset > int64(10+len(src)) {
				t.Fatalf("%v is not corruption within the source", err)
			}
			return
		}
		checkForm(t, l)
		if again := l.AppendTo(nil); !bytes.Equal(again, src) {
			t.Fatalf("%x encodes as %x", src, again)
		}
		for i := range l.Len() {
			f := l.At(i)
			if l.Cover(f.Lo, base.SeqNumMax) != f.Seqs[0] || l.Cover(f.Hi, base.SeqNumMax) == f.Seqs[0] && i+1 == l.Len() {
				t.Fatalf("fragment [%q, %q) is not found", f.Lo, f.Hi)
			}
		}
	})
}
