package workload

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// nothing is a store of one value, which it finds without looking.
type nothing struct{ value []byte }

func (n nothing) Get(_ []byte, fn func([]byte) error) (bool, error) { return true, fn(n.value) }
func (n nothing) Close() error                                      { return nil }
func (n nothing) Scan(stores.ScanOptions, func(key, value []byte) error) error {
	return nil
}

// HarnessCost returns the nanoseconds of a read that a store has no part in:
// drawing a key, writing it, and checking the ends of a value in the cache.
func HarnessCost(length time.Duration) float64 {
	values := Values{Size: 128}
	n := nothing{value: make([]byte, values.Size)}
	values.Fill(n.value, 42, 0)
	p := &probe{reader: n, keys: NewKeys(values.Size), values: values}
	p.callback = func(value []byte) (err error) {
		p.version, err = p.values.Check(value, 42)
		return err
	}
	rng := newRandom(5)
	ops, elapsed, err := timed(1, length, func(w *worker) error {
		for w.running() {
			if _, _, err := p.get(rng.below(1 << 20)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return nanosPerOp(ops, elapsed)
}
