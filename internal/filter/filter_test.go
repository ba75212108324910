package filter

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func randomHashes(rng *rand.Rand, n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = rng.Uint64()
	}
	return hashes
}

func filterOf(hashes []uint64) Filter {
	b := NewBuilder(uint64(len(hashes)))
	var all sync.WaitGroup
	for part := range slices.Chunk(hashes, max(1, len(hashes)/3)) {
		all.Go(func() { b.Add(part) })
	}
	all.Wait()
	return b.Filter()
}

func TestFilter_HoldsWhatItWasBuiltFrom(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 5, 6, 63, 1000, 100_000} {
		hashes := append(randomHashes(rng, n), 0, ^uint64(0))
		f := filterOf(hashes)
		for _, h := range hashes {
			if !f.May(h) {
				t.Fatalf("%#x is missing from a filter built from it and %d others", h, n)
			}
		}
	}
}

func TestFilter_HasFewFalsePositives(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1000, 100_000} {
		f, wrong := filterOf(randomHashes(rng, n)), 0
		const asked = 100_000
		for _, h := range randomHashes(rng, asked) {
			if f.May(h) {
				wrong++
			}
		}
		if share := float64(wrong) / asked; share > 0.02 {
			t.Errorf("a filter of %d hashes holds %.1f %% of all others", n, 100*share)
		}
		if each := float64(f.Bytes()) / float64(n); each > 1.6 {
			t.Errorf("a filter of %d hashes takes %.2f bytes for each", n, each)
		}
	}
}

func TestFilter_NilHoldsEverythingAndEmptyNothing(t *testing.T) {
	t.Parallel()
	if !Filter(nil).May(7) {
		t.Error("where there is no filter everything may be there")
	}
	if filterOf(nil).May(7) {
		t.Error("a filter of nothing holds something")
	}
}
