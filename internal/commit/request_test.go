package commit

import (
	"math"
	"testing"
)

func TestWriteSet_HasOnePassageThroughEachGate(t *testing.T) {
	t.Parallel()
	for _, many := range []int{1, passagesScanned, passagesScanned + 1, 100} {
		gates := make([]Gate, many)
		var w WriteSet
		for _, at := range []uint64{7, 3, 5} {
			for i := range gates {
				w.PassAt(&gates[i], at+uint64(i))
				w.Pass(&gates[i])
			}
		}
		if len(w.passages) != many {
			t.Errorf("%d gates: %d passages", many, len(w.passages))
		}
		for i, p := range w.passages {
			if p.Gate != &gates[i] || p.Least != 3+uint64(i) {
				t.Errorf("%d gates: passage %d through %p with a least timestamp of %d, want %p and %d", many, i, p.Gate, p.Least, &gates[i], 3+i)
			}
		}
	}
	var gate Gate
	var w WriteSet
	if w.Pass(&gate); w.passages[0].Least != math.MaxUint64 {
		t.Errorf("a write without a timestamp has %d", w.passages[0].Least)
	}
}

// BenchmarkWriteSet_Pass writes to many keyspaces in turns.
func BenchmarkWriteSet_Pass(b *testing.B) {
	gates := make([]Gate, 5_000)
	var w WriteSet
	for i := 0; b.Loop(); i++ {
		w.Pass(&gates[i%len(gates)])
	}
}
