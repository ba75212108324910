package txn

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestReadSet_CoversExactlyWhatWasRead(t *testing.T) {
	t.Parallel()
	var r ReadSet
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		r.Reset()
		key := func() []byte { return fmt.Appendf(nil, "%0*d", 1+rng.IntN(3), rng.IntN(200)) }
		var ranges []Range
		for range rng.IntN(12) {
			g := Range{Lo: key(), Hi: key()}
			switch rng.IntN(4) {
			case 0:
				g.Hi = nil
				r.AddRange(g.Lo, nil)
			case 1:
				r.AddRangeThrough(g.Lo, g.Hi)
				g.Hi = append(g.Hi, 0)
			default:
				r.AddRange(g.Lo, g.Hi)
			}
			ranges = append(ranges, g)
			if rng.IntN(3) == 0 {
				r.Covers(key()) // merging in between must not lose anything
			}
		}
		for range 200 {
			k := key()
			want := false
			for _, g := range ranges {
				want = want || (bytes.Compare(k, g.Lo) >= 0 && (g.Hi == nil || bytes.Compare(k, g.Hi) < 0))
			}
			if got := r.Covers(k); got != want {
				t.Fatalf("seed %d: Covers(%s) = %v, want %v in %s", seed, k, got, want, ranges)
			}
		}
		checkIntersections(t, &r, ranges, key)
	}
}

func TestReadSet_ReadingTheSameKeysForeverTakesNoMoreMemory(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 7))
	key := func(i int) []byte { return fmt.Appendf(nil, "key %03d", i) }
	var r ReadSet
	for range 100_000 {
		i := 3 * rng.IntN(100)
		r.AddRange(key(i), key(i+2))
	}
	if len(r.ranges) > 2*joinMin || cap(r.keys) > 1<<16 {
		t.Errorf("%d ranges, %d bytes of bounds", len(r.ranges), cap(r.keys))
	}
	for i := range 300 {
		if got, want := r.Covers(key(i)), i%3 != 2; got != want {
			t.Errorf("key %d was read: %v, want %v", i, got, want)
		}
	}
}

// checkIntersections compares Intersects with a search through all possible
// keys: those of the ranges' alphabet and their direct successors.
func checkIntersections(t *testing.T, r *ReadSet, ranges []Range, key func() []byte) {
	t.Helper()
	for range 30 {
		lo, hi := key(), key()
		if len(hi) == 1 {
			hi = nil
		}
		want := false
		for _, g := range ranges {
			// Two ranges have a key in common if the later beginning lies in
			// both.
			at := g.Lo
			if bytes.Compare(lo, at) > 0 {
				at = lo
			}
			want = want || (g.Hi == nil || bytes.Compare(at, g.Hi) < 0) && (hi == nil || bytes.Compare(at, hi) < 0)
		}
		if got := r.Intersects(lo, hi); got != want {
			t.Fatalf("Intersects(%s, %s) = %v, want %v in %s", lo, hi, got, want, ranges)
		}
	}
}

func TestReadSet_KnowsWhichRangesHaveAPointInThem(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 5))
	var r ReadSet
	for range 60 {
		r.Reset()
		var read [][]byte
		key := func() []byte {
			k := fmt.Appendf(nil, "%0*d", 1+rng.IntN(4), rng.IntN(3000))
			if rng.IntN(50) == 0 {
				k = append(k, make([]byte, rng.IntN(base.MaxKeySize-4))...)
			}
			return k
		}
		for range 4 {
			for range rng.IntN(200) {
				k := key()
				r.AddKey(k, base.Hash(k, 1))
				r.AddKey(k, base.Hash(k, 1))
				read = append(read, bytes.Clone(k))
				k[0] = 'x' // the set has its own copy
			}
			for range rng.IntN(3 * scansMax) {
				lo, hi := key(), key()
				if rng.IntN(9) == 0 {
					hi = nil
				}
				want := false
				for _, k := range read {
					want = want || bytes.Compare(k, lo) >= 0 && (hi == nil || bytes.Compare(k, hi) < 0)
				}
				if got := r.read.has(lo, hi); got != want || r.Intersects(lo, hi) != want {
					t.Fatalf("read.has(%.20s, %.20s) = %v, want %v", lo, hi, got, want)
				}
			}
		}
	}
}

func TestReadSet_FindsAKeyOfHashZero(t *testing.T) {
	t.Parallel()
	for _, hash := range []uint64{0, 1, 2} {
		var r ReadSet
		r.AddKey([]byte("key"), hash)
		if !r.HasPoint(hash) || !slices.Contains(slices.Collect(r.Points), hash) {
			t.Errorf("hash %d is not among the points %d", hash, slices.Collect(r.Points))
		}
		for range r.Points {
			break // no point comes after that
		}
	}
}

func TestReadSet_FindsEveryPointAndNoOther(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 3))
	var r ReadSet
	for round := range 20 {
		r.Reset()
		points := map[uint64]bool{0: true, 1 << 40: true}
		for range rng.IntN(5000) * (round % 2) {
			points[rng.Uint64()] = true
		}
		for p := range points {
			r.AddKey([]byte("key"), p)
			r.AddKey([]byte("key"), p)
		}
		for p := range points {
			if !r.HasPoint(p) || !r.MayHavePoint(uint32(p>>32)) {
				t.Fatalf("point %x is lost", p)
			}
		}
		misses := 0
		for range 5000 {
			if p := rng.Uint64(); !points[p] {
				if r.HasPoint(p) {
					t.Fatalf("point %x was never read", p)
				}
				if r.MayHavePoint(uint32(p >> 32)) {
					misses++
				}
			}
		}
		if misses > 5 {
			t.Errorf("%d of 5000 foreign hashes look like points", misses)
		}
	}
}

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

// BenchmarkAddKey adds 1,000 keys to a set in turn.
func BenchmarkAddKey(b *testing.B) {
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "vsz=00128-k=%010d", i*7919)
	}
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = base.Hash(k, 1)
	}
	b.ReportAllocs()
	var r ReadSet
	for i := range b.N {
		j := i % len(keys)
		if j == 0 {
			r.Reset()
		}
		r.AddKey(keys[j], hashes[j])
	}
}

func TestKeyLog_KeepsKeysOfAnyLength(t *testing.T) {
	t.Parallel()
	var l keyLog
	var want [][]byte
	for _, n := range []int{1, longKey - 1, longKey, longKey + 1, 2, base.MaxKeySize, 3} {
		key := bytes.Repeat([]byte{byte(n)}, n)
		l.add(key)
		want = append(want, key)
	}
	var got [][]byte
	l.each(func(key []byte) bool {
		got = append(got, key)
		return true
	})
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("the log has %d keys, want the %d that were added", len(got), len(want))
	}
}
