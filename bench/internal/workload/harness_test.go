package workload

import (
	"testing"
	"time"
)

func TestHarnessIsMeasuredWithoutAStore(t *testing.T) {
	t.Parallel()
	cost, err := MeasureHarness(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for name, ns := range map[string]float64{"get": cost.GetNanos, "scan": cost.ScanNanos, "keys": cost.KeysNanos} {
		if ns <= 0 {
			t.Errorf("the harness's part of a %s is %v ns", name, ns)
		}
	}
}

// The harness's part of every figure.
func BenchmarkHarness(b *testing.B) {
	p := NewPopulation(nothingKeys, Values{Size: 128})
	n := newNothing(&p)
	for _, c := range []struct {
		name     string
		keysOnly bool
	}{{"scan", false}, {"keys", true}} {
		b.Run(c.name, func(b *testing.B) {
			w := &walk{reader: n, keys: p.Keys, values: p.Values, present: Full(nothingKeys)}
			w.callback = w.entry
			for i := 0; i < b.N; i += nothingKeys {
				if _, err := w.all(c.keysOnly); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
