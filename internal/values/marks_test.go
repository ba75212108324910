package values

import (
	"math/rand/v2"
	"testing"
)

func TestMarks_StandForVerifiedRecords(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 9))
	for _, shortest := range []int64{recordMin, 200, stretchMin - unit, stretchMin, 1000, 1 << 20} {
		const end = 4 << 20
		var m marks
		m.init(shortest, end)
		if m.heapBytes() != 0 {
			t.Fatalf("shortest %d: memory before the first mark", shortest)
		}
		verified := map[int64]bool{}
		at := int64(fileHeaderSize)
		var all []int64
		for ; at < end-2*shortest; at += shortest + rng.Int64N(4)*unit {
			all = append(all, at)
		}
		for _, at := range all {
			if rng.IntN(2) == 0 {
				m.set(at)
				verified[at] = true
			}
		}
		for _, at := range all {
			if m.has(at) != verified[at] {
				t.Fatalf("shortest %d: the record at %d verified: %v, want %v", shortest, at, m.has(at), verified[at])
			}
			if m.has(at+unit) && shortest > unit {
				t.Fatalf("shortest %d: what lies at %d is no record, and verified", shortest, at+unit)
			}
		}
		if m.clear(); m.has(all[0]) {
			t.Fatalf("shortest %d: verified after clear", shortest)
		}
		if m.heapBytes() != 0 {
			t.Fatalf("shortest %d: memory after clear", shortest)
		}
	}
}
