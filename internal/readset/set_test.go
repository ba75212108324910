package readset

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestReadSet_CoversExactlyWhatWasRead(t *testing.T) {
	t.Parallel()
	var r Set
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
	var r Set
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
func checkIntersections(t *testing.T, r *Set, ranges []Range, key func() []byte) {
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
	var r Set
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
		var r Set
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
	var r Set
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

// BenchmarkAddKey adds 1,000 keys to a set in turn.
func BenchmarkAddKey(b *testing.B) { benchmarkAddKey(b, 1000) }

// BenchmarkAddKeyMany adds 100,000 keys to a set in turn, so that chunks become full.
func BenchmarkAddKeyMany(b *testing.B) { benchmarkAddKey(b, 100_000) }

func benchmarkAddKey(b *testing.B, n int) {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "vsz=00128-k=%010d", i*7919)
	}
	hashes := make([]uint64, len(keys))
	for i, k := range keys {
		hashes[i] = base.Hash(k, 1)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var r Set
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
	for _, n := range []int{1, 127, 128, 1<<14 - 1, 1 << 14, 2, base.MaxKeySize, 3} {
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

// Another transaction may delete a range while the leader waits for the answer.
func TestKeyLog_SearchesOnlyChunksAroundARange(t *testing.T) {
	t.Parallel()
	const n = 100_000
	key := func(i int) []byte { return fmt.Appendf(nil, "key %06d", i) }
	var l keyLog
	for i := range n {
		l.add(key(2 * i))
	}
	for i := range 500 {
		l.scanned = 0 // it must not sort
		at := i * n / 250
		if !l.has(key(at), key(at+1)) || l.has(key(at+1), key(at+2)) {
			t.Fatalf("key %d is there, and the next one is not", at)
		}
	}
	l.scanned = 0
	if l.has([]byte("l"), nil) || l.has([]byte("a"), []byte("key")) {
		t.Error("a range apart from all keys has one of them")
	}
	if l.scanned > len(l.full) {
		t.Errorf("two searches of ranges apart from all keys took %d chunks, the log has %d", l.scanned, len(l.full))
	}
}

func TestReadSet_KnowsItsMemory(t *testing.T) {
	t.Parallel()
	const n = 100_000
	var r Set
	if size := r.Bytes(); size != 0 {
		t.Errorf("an empty set takes %d bytes", size)
	}
	within := func(what string, before, least, most int64) {
		t.Helper()
		if got := r.Bytes() - before; got < least*n || got > most*n {
			t.Errorf("%s take %d bytes each", what, got/n)
		}
	}
	for i := range n {
		key := fmt.Appendf(nil, "key %06d", i)
		r.AddKey(key, base.Hash(key, 0))
	}
	within("keys of 10 bytes", 0, 20, 40)
	before := r.Bytes()
	for i := range n {
		r.AddRange(fmt.Appendf(nil, "a%06d", i), fmt.Appendf(nil, "a%06d!", i))
	}
	within("ranges", before, 60, 150)
	before = r.Bytes()
	for i := range n {
		r.AddRangeAt(fmt.Appendf(nil, "b%06d", i), fmt.Appendf(nil, "b%06d!", i), 7)
	}
	within("ranges at a timestamp", before, 60, 150)
	if r.Reset(); r.Bytes() > 1<<10 {
		t.Errorf("an emptied set takes %d bytes", r.Bytes())
	}
}
