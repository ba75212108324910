package readset

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/stamp"
)

func TestReadSet_CoversVersionsUpToTheTimestampOfTheRead(t *testing.T) {
	t.Parallel()
	type read struct {
		lo, hi string
		at     uint64
	}
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		key := func() string { return fmt.Sprintf("%0*d", 1+rng.IntN(2), rng.IntN(30)) }
		var r Set
		var reads []read
		times := 1 + rng.IntN(2*momentsMax)
		for range rng.IntN(30) {
			g := read{key(), key(), uint64(10 * rng.IntN(times))}
			r.AddRangeAt(stamp.AppendKey(nil, []byte(g.lo)), stamp.AppendKey(nil, []byte(g.hi)), g.at)
			reads = append(reads, g)
		}
		if r.HasRanges() == r.Empty() {
			t.Fatalf("seed %d: the set has ranges and is empty: %v", seed, r.Empty())
		}
		for range 200 {
			k, at := key(), uint64(rng.IntN(10*times+1))
			want, earlier := false, false
			for _, g := range reads {
				inside := g.lo <= k && k < g.hi
				want, earlier = want || inside && at <= g.at, earlier || inside
			}
			got := r.Covers(stamp.Append(nil, []byte(k), at))
			if got != want && (len(r.moments) < momentsMax || !got || !earlier) {
				t.Fatalf("seed %d: Covers(%s at %d) = %v, want %v in %v", seed, k, at, got, want, reads)
			}
			lo := stamp.AppendKey(nil, []byte(k))
			if got := r.Intersects(lo, stamp.AppendAfter(nil, []byte(k))); got != earlier {
				t.Fatalf("seed %d: all versions of %s were read: %v, want %v in %v", seed, k, got, earlier, reads)
			}
		}
		r.Reset()
		if !r.Empty() {
			t.Fatalf("seed %d: the set is not empty", seed)
		}
	}
}
