package rangedel

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestHistory_AnswersForEverySnapshot(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 5))
		key := keyMakers[rng.IntN(len(keyMakers))]
		m := randomModel(rng, key, rng.IntN(leafSize*fan*fan*2))
		var h, old *History
		oldLen := 0
		for n := 0; n < len(m); {
			more := min(1+rng.IntN(leafSize*3), len(m)-n)
			h = h.Extend(m[n : n+more])
			n += more
			if rng.IntN(3) == 0 {
				old, oldLen = h, n
			}
			checkHistory(t, h, m[:n], rng, key)
			// The history that was extended answers as before.
			checkHistory(t, old, m[:oldLen], rng, key)
		}
	}
}

func checkHistory(t *testing.T, h *History, m model, rng *rand.Rand, key func(*rand.Rand) []byte) {
	t.Helper()
	if h.Len() != len(m) {
		t.Fatalf("Len is %d, want %d", h.Len(), len(m))
	}
	for _, at := range m.moments(rng) {
		if h != nil {
			if n := len(h.lists(at)); n > 2*fan*8+2 {
				t.Fatalf("%d lists for %d deletions", n, len(m))
			}
		}
		var c Cursor
		c.Init(false)
		h.AddTo(&c, at, 0)
		for _, k := range m.probes(rng, key)[:20] {
			want := m.cover(k, at)
			if got := h.Cover(k, at); got != want {
				t.Fatalf("Cover(%q, %d) = %d, want %d", k, at, got, want)
			}
			if got, _ := c.At(k); got != want {
				t.Fatalf("the lists at %d give %d for %q, want %d", at, got, k, want)
			}
		}
	}
}

func TestHistory_NestedDeletionsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const n = 4096
	m := nested(n)
	var h *History
	for i := range m {
		h = h.Extend(m[i : i+1])
	}
	if most := int64(n * 2000); h.Bytes() > most {
		t.Errorf("%d nested deletions take %d bytes, want at most %d", n, h.Bytes(), most)
	}
	kept := Retained(m, []base.SeqNum{n / 2, n})
	if kept.Numbers() > 2*n {
		t.Errorf("%d numbers are kept for 2 snapshots", kept.Numbers())
	}
}
