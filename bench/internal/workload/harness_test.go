package workload

import (
	"fmt"
	"testing"
	"time"
)

func TestHarness_IsMeasuredWithoutAStore(t *testing.T) {
	t.Parallel()
	cost, err := MeasureHarness(time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	shares := map[string]float64{"get": cost.GetNanos, "scan": cost.ScanNanos, "keys": cost.KeysNanos}
	for _, size := range WholeSizes {
		shares[fmt.Sprint("scan with whole values of ", size)] = cost.WholeNanos[size]
	}
	for name, ns := range shares {
		if ns <= 0 {
			t.Errorf("the harness's share of a %s is %v ns", name, ns)
		}
	}
}

// These benchmarks measure the harness's share of every figure.
func BenchmarkHarness(b *testing.B) {
	p := NewPopulation(nullStoreKeys, Values{Size: 128})
	n := newNullStore(&p, nullStoreKeys)
	for _, c := range []struct {
		name     string
		keysOnly bool
	}{{"scan", false}, {"keys", true}} {
		b.Run(c.name, func(b *testing.B) {
			w := &walk{reader: n, keys: p.Keys, values: p.Values, present: Full(nullStoreKeys)}
			w.callback = w.entry
			for i := 0; i < b.N; i += nullStoreKeys {
				if _, err := w.all(c.keysOnly); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
