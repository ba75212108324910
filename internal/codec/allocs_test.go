//go:build !race

package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// These tests count the allocations of the whole process, so they are not
// parallel. The race detector empties pools at random, so they do not run with
// it.

func TestAllocs_ArenaAfterReset(t *testing.T) {
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

func TestAllocs_CompressAndDecode(t *testing.T) {
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
