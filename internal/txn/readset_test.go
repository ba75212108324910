package txn

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestReadSetCoversExactlyWhatWasRead(t *testing.T) {
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
	}
}

func TestReadSetFindsEveryPointAndNoOther(t *testing.T) {
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
			r.AddPoint(p)
			r.AddPoint(p)
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

func TestPayloadComesBackAsItWent(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		var want []base.Entry
		h := Header{Seq: base.SeqNum(1 + rng.Uint64N(uint64(base.SeqNumMax))), TimeMs: rng.Uint64(), Count: uint32(rng.IntN(20))}
		b := h.AppendTo(nil)
		bound := HeaderSize
		for range h.Count {
			e := base.Entry{Key: bytes.Repeat([]byte{byte(rng.Uint32())}, 1+rng.IntN(300)), Meta: base.Meta{Kind: base.KindDelete}}
			if rng.IntN(2) == 0 {
				e.Meta.Kind, e.Value = base.KindSet, bytes.Repeat([]byte{7}, rng.IntN(300))
			}
			if rng.IntN(2) == 0 {
				e.Meta.ExpiresAt = 1 + rng.Uint64N(1<<60)
			}
			if rng.IntN(2) == 0 {
				e.Meta.User = byte(rng.Uint32())
			}
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

// FuzzPayload holds that decoding fails as corruption or re-encodes to the
// same bytes.
func FuzzPayload(f *testing.F) {
	b := Header{Seq: 7, TimeMs: 9, Count: 2}.AppendTo(nil)
	b = append(AppendEntryHead(b, []byte("key"), 5, base.Meta{Kind: base.KindSet, ExpiresAt: 12, User: 3}), "value"...)
	f.Add(AppendEntryHead(b, []byte("gone"), 0, base.Meta{Kind: base.KindDelete}))
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
