//go:build !race

package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// These count what everybody allocates, and so are not parallel. The race
// detector empties pools at random: there is nothing to count with it.

func TestAnArenaThatIsResetAllocatesNothing(t *testing.T) {
	var a Arena
	if n := testing.AllocsPerRun(1000, func() {
		a.Alloc(1000)
		a.Alloc(10_000)
		a.Filled(1000)
		a.Filled(10_000)
		a.Reset()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestCompressingAndDecodingAllocateNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	raw := text(rng, 1<<10)
	dst := make([]byte, len(raw))
	for _, how := range []ID{S2, Zstd} {
		c := mustCompressor(t, how)
		id, out := c.Compress(raw)
		stored := bytes.Clone(out)
		if n := testing.AllocsPerRun(200, func() { c.Compress(raw) }); n != 0 {
			t.Errorf("codec %d: %v allocations to compress", how, n)
		}
		if n := testing.AllocsPerRun(200, func() {
			if err := id.Decode(dst, stored); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("codec %d: %v allocations to decode", how, n)
		}
	}
}
