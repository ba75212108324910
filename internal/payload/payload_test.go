package payload

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestPayload_DecodesWhatItEncoded(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		var want []base.Entry
		h := Header{Seq: base.SeqNum(1 + rng.Uint64N(uint64(base.SeqNumMax))), TimeMs: rng.Uint64N(base.TimeMsMax), Count: uint32(rng.IntN(20))}
		b := h.AppendTo(nil)
		bound := HeaderSize
		for range h.Count {
			e := randomPayloadEntry(rng)
			b = append(AppendEntryHead(b, e.Key, len(e.Value), e.Meta), e.Value...)
			bound += len(e.Key) + len(e.Value) + EntryOverheadMax
			want = append(want, e)
		}
		if len(b) > bound {
			t.Fatalf("the encoding took %d bytes, more than the bound %d", len(b), bound)
		}
		i := 0
		err := Decode(b, func(got Header) error {
			if got != h {
				t.Fatalf("header %+v, want %+v", got, h)
			}
			return nil
		}, func(key, value []byte, m base.Meta) error {
			w := want[i]
			if !bytes.Equal(key, w.Key) || !bytes.Equal(value, w.Value) || m != w.Meta {
				t.Fatalf("entry %d is %q %q %v, want %+v", i, key, value, m, w)
			}
			i++
			return nil
		})
		if err != nil || i != len(want) {
			t.Fatalf("%d of %d entries, %v", i, len(want), err)
		}
	}
}

func randomPayloadEntry(rng *rand.Rand) base.Entry {
	e := base.Entry{Key: bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(300)), Meta: base.Meta{Kind: base.KindDelete}}
	switch rng.IntN(6) {
	case 5:
		e.Meta.Kind, e.Value = base.KindMerge+base.Kind(rng.IntN(2)), bytes.Repeat([]byte{8}, 1+rng.IntN(300))
		return e
	case 0:
		e.Meta.Kind = base.KindDeleteRange
		if rng.IntN(3) > 0 { // otherwise it has no end
			e.Value = append(bytes.Clone(e.Key), 1)
		}
		return e
	case 1:
		e.Meta.Kind, e.Value = base.KindPointer, bytes.Repeat([]byte{9}, 1+rng.IntN(PointerSizeMax))
	case 2, 3:
		e.Meta.Kind, e.Value = base.KindSet, bytes.Repeat([]byte{7}, rng.IntN(300))
	}
	if rng.IntN(2) == 0 {
		e.Meta.ExpiresAt = 1 + rng.Uint64N(1<<60)
	}
	if rng.IntN(2) == 0 {
		e.Meta.User = byte(rng.Uint32())
	}
	return e
}

func TestPayload_RefusesWhatNoTransactionWrites(t *testing.T) {
	t.Parallel()
	entry := func(key, value string, m base.Meta) []byte {
		b := AppendEntryHead(Header{Seq: 1, Count: 1}.AppendTo(nil), []byte(key), len(value), m)
		return append(b, value...)
	}
	for name, b := range map[string][]byte{
		"a range of no key":           entry("b", "b", base.Meta{Kind: base.KindDeleteRange}),
		"a range that ends before":    entry("b", "a", base.Meta{Kind: base.KindDeleteRange}),
		"a range from no key":         entry("", "b", base.Meta{Kind: base.KindDeleteRange}),
		"a range of nothing":          entry("", "", base.Meta{Kind: base.KindDeleteRange}),
		"a range to a spelt-out end":  entry("b", string(base.EndOfKeys), base.Meta{Kind: base.KindDeleteRange}),
		"a range to a long key":       entry("b", "c"+strings.Repeat("c", base.MaxKeySize), base.Meta{Kind: base.KindDeleteRange}),
		"a range that expires":        entry("b", "c", base.Meta{Kind: base.KindDeleteRange, ExpiresAt: 1}),
		"a range with a user byte":    entry("b", "c", base.Meta{Kind: base.KindDeleteRange, User: 1}),
		"a pointer of no bytes":       entry("b", "", base.Meta{Kind: base.KindPointer}),
		"a pointer of too many bytes": entry("b", strings.Repeat("p", PointerSizeMax+1), base.Meta{Kind: base.KindPointer}),
		"steps of no bytes":           entry("b", "", base.Meta{Kind: base.KindMerge}),
		"an operand that expires":     entry("b", "c", base.Meta{Kind: base.KindMerge, ExpiresAt: 1}),
		"a renewal with a user byte":  entry("b", "c", base.Meta{Kind: base.KindRenew, User: 1}),
		"an unknown kind":             entry("b", "c", base.Meta{Kind: base.KindRenew + 1}),
	} {
		err := Decode(b, func(Header) error { return nil }, func(_, _ []byte, _ base.Meta) error {
			t.Errorf("%s is shown", name)
			return nil
		})
		if !errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPayload_ATimeBeyondAllClocksIsCorruption(t *testing.T) {
	t.Parallel()
	for _, ms := range []uint64{0, base.TimeMsMax, base.TimeMsMax + 1, base.TimeMsMax + 6, math.MaxUint64} {
		shown := false
		err := Decode(Header{Seq: 1, TimeMs: ms}.AppendTo(nil), func(Header) error {
			shown = true
			return nil
		}, nil)
		if refused := errors.Is(err, base.ErrCorrupt); refused != (ms > base.TimeMsMax) || refused == shown {
			t.Errorf("time %d: %v, shown: %v", ms, err, shown)
		}
	}
}

// FuzzPayload checks that decoding reports corruption, or a transaction that
// encodes to the same bytes.
func FuzzPayload(f *testing.F) {
	b := Header{Seq: 7, TimeMs: 9, Count: 2}.AppendTo(nil)
	b = append(AppendEntryHead(b, []byte("key"), 5, base.Meta{Kind: base.KindSet, ExpiresAt: 12, User: 3}), "value"...)
	f.Add(AppendEntryHead(b, []byte("gone"), 0, base.Meta{Kind: base.KindDelete}))
	b = Header{Seq: 8, TimeMs: 9, Count: 2}.AppendTo(nil)
	b = append(AppendEntryHead(b, []byte("lo"), 2, base.Meta{Kind: base.KindDeleteRange}), "or"...)
	f.Add(append(AppendEntryHead(b, []byte("far"), 3, base.Meta{Kind: base.KindPointer, User: 1}), "ptr"...))
	b = Header{Seq: 9, TimeMs: 9, Count: 1}.AppendTo(nil)
	f.Add(AppendEntryHead(b, []byte("from"), 0, base.Meta{Kind: base.KindDeleteRange}))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		err := Decode(b, func(h Header) error {
			again = h.AppendTo(nil)
			return nil
		}, func(key, value []byte, m base.Meta) error {
			again = append(AppendEntryHead(again, key, len(value), m), value...)
			return nil
		})
		if err != nil {
			var c *base.CorruptionError
			if !errors.As(err, &c) || c.Offset < 0 || c.Offset > int64(len(b)) {
				t.Fatalf("error %v is not corruption within the payload", err)
			}
			return
		}
		if !bytes.Equal(b, again) {
			t.Fatalf("re-encoded to %x, was %x", again, b)
		}
	})
}
