package table

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// smallTable returns a table of several blocks with every feature of the format.
func smallTable(t testing.TB, how codec.ID) ([]base.Entry, []byte) {
	rng := rand.New(rand.NewPCG(11, 12))
	var entries []base.Entry
	for i := range 24 {
		e := base.Entry{
			Key: fmt.Appendf(nil, "key-%03d", i/2*3), Value: slices.Repeat([]byte{byte(i)}, 5+i),
			Seq: base.SeqNum(1000 - i), Meta: base.Meta{Kind: base.KindSet},
		}
		decorate(rng, &e)
		entries = append(entries, e)
	}
	deletions := rangedel.Build([]rangedel.Deletion{
		{Lo: []byte("a"), Hi: []byte("key-010"), Seq: 900}, {Lo: []byte("key-005"), Hi: []byte("z"), Seq: 950},
	})
	data, _ := mustBuildWith(t, sortEntries(entries), deletions, WriterOptions{Salt: 77, BlockSize: 100, Compression: how})
	return entries, data
}

// answers opens a table and reads everything in every way. It returns text.
func answers(t testing.TB, data []byte, entries []base.Entry) ([]string, error) {
	r, err := openBytes(t, data, ReaderOptions{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // a failed close would have failed in Open
	out := []string{fmt.Sprintf("%+v", r.Properties()), fmt.Sprintf("%x", r.Deletions().AppendTo(nil))}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, o := range []IterOptions{{}, {Reverse: true}, {Unmapped: true}} {
		it := r.NewIter(o)
		it.Seek(nil)
		got, err := drain(it, rng, 1<<20)
		if err != nil {
			return nil, err
		}
		for _, e := range got {
			out = append(out, describe(e))
		}
	}
	for _, e := range entries {
		for _, key := range [][]byte{e.Key, append(e.Key[:len(e.Key):len(e.Key)], 'x')} {
			value, meta, seq, ok, err := r.Get(key, hashOf(key), e.Seq, nil)
			if err != nil {
				return nil, err
			}
			out = append(out, fmt.Sprintf("%x %v %v %v", value, meta, seq, ok))
		}
	}
	return out, nil
}

func TestDamage_AnyFlippedBitIsAnErrorOrChangesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []codec.ID{codec.None, codec.S2, codec.Zstd} {
		entries, data := smallTable(t, how)
		want, err := answers(t, data, entries)
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		pad := zeroPadding(t, data)
		for bit := 0; bit < 8*len(data); bit++ {
			// Compressed tables differ only in the value parts, so a sample is
			// enough. All zeros in the padding are alike.
			if how != codec.None && bit%13 != 0 || pad.from <= int64(bit/8) && int64(bit/8) < pad.to && bit%171 != 0 {
				continue
			}
			bad := slices.Clone(data)
			bad[bit/8] ^= 1 << (bit % 8)
			got, err := answers(t, bad, entries)
			switch {
			case err == nil && !slices.Equal(got, want):
				t.Fatalf("compression %d, bit %d of byte %d changes the answers silently", how, bit%8, bit/8)
			case err != nil && !errors.Is(err, base.ErrCorrupt):
				t.Fatalf("compression %d, bit %d of byte %d: %v is not ErrCorrupt", how, bit%8, bit/8, err)
			case err != nil:
				refused++
			}
			if bit%8 != 0 {
				continue
			}
			if r, err := openBytes(t, bad, ReaderOptions{}); err == nil {
				if err := r.Verify(); !errors.Is(err, base.ErrCorrupt) {
					t.Fatalf("compression %d: Verify does not see byte %d: %v", how, bit/8, err)
				}
				_ = r.Close()
			}
		}
		if refused == 0 {
			t.Error("no flipped bit was noticed")
		}
	}
}

// zeroPadding returns the place of the zeros before the hash index.
func zeroPadding(t testing.TB, data []byte) span {
	f, err := decodeFooter(data[len(data)-footerSize:], int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return span{f.dataEnd, f.hashOff()}
}

func TestOpen_WrongLengthIsRefused(t *testing.T) {
	t.Parallel()
	_, data := smallTable(t, codec.None)
	for n := range data {
		if _, err := openBytes(t, data[:n], ReaderOptions{}); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	for _, more := range []int{1, 8, footerSize, 4096} {
		if _, err := openBytes(t, append(slices.Clone(data), make([]byte, more)...), ReaderOptions{}); !errors.Is(err, base.ErrCorrupt) {
			t.Fatalf("%d bytes more: %v", more, err)
		}
	}
	if r, err := openBytes(t, data, ReaderOptions{}); err != nil || r.Close() != nil {
		t.Fatal(err)
	}
}

func TestOpen_FileShorterThanTheCallerSaysIsCorrupt(t *testing.T) {
	t.Parallel()
	_, data := smallTable(t, codec.None)
	r, err := openBytes(t, data, ReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(r.file, r.size+10, "t", ReaderOptions{}); !errors.Is(err, base.ErrCorrupt) {
		t.Error(err)
	}
}

func TestErrors_NameTheFileAndTheOffset(t *testing.T) {
	t.Parallel()
	_, data := smallTable(t, codec.None)
	data[3] ^= 1 // in the first value part
	r := mustOpen(t, data, ReaderOptions{})
	_, _, _, _, err := r.Get([]byte("key-000"), hashOf([]byte("key-000")), base.SeqNumMax, nil)
	var c *base.CorruptionError
	if !errors.As(err, &c) || c.File != "t" || c.Offset != 0 || c.Got == "" || c.Want == "" {
		t.Errorf("got %#v", err)
	}
}
