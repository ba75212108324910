package workload

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// nothing is a store that finds without looking: one value for every get, and
// a few entries, in the cache of the processor, for every scan.
type nothing struct {
	value []byte
	keys  []Key
	all   [][]byte // the values of the keys
}

// nothingKeys is how many entries it scans.
const nothingKeys = 128

func newNothing(p *Population) *nothing {
	n := &nothing{keys: make([]Key, nothingKeys)}
	for i := range n.keys {
		p.Keys.Put(&n.keys[i], uint64(i))
		value := make([]byte, p.Values.Size)
		p.Values.Fill(value, uint64(i), 0)
		n.all = append(n.all, value)
	}
	n.value = n.all[nothingKey]
	return n
}

// nothingKey is the key whose value every get finds.
const nothingKey = 42

func (n *nothing) Get(_ []byte, fn func([]byte) error) (bool, error) { return true, fn(n.value) }
func (n *nothing) Close() error                                      { return nil }

func (n *nothing) Scan(o stores.ScanOptions, fn func(key, value []byte) error) error {
	for i := range n.keys {
		var value []byte
		if !o.KeysOnly {
			value = n.all[i]
		}
		if err := fn(n.keys[i][:], value); err != nil {
			return err
		}
	}
	return nil
}

// HarnessCost is what the workloads cost without a store.
type HarnessCost struct {
	GetNanos  float64 // drawing a key, writing it, and checking the ends of a value in the cache
	ScanNanos float64 // reading a key, looking whether it is the next, and checking the ends of its value
	KeysNanos float64 // the same without the value
}

// MeasureHarness measures each cost for that long.
func MeasureHarness(length time.Duration) (HarnessCost, error) {
	p := NewPopulation(nothingKeys, Values{Size: 128})
	n := newNothing(&p)
	var c HarnessCost
	var err error
	if c.GetNanos, err = getCost(&p, n, length); err != nil {
		return c, err
	}
	if c.ScanNanos, err = scanCost(&p, n, false, length); err != nil {
		return c, err
	}
	c.KeysNanos, err = scanCost(&p, n, true, length)
	return c, err
}

func getCost(p *Population, n *nothing, length time.Duration) (float64, error) {
	one := &probe{reader: n, keys: p.Keys, values: p.Values}
	one.callback = func(value []byte) (err error) {
		one.version, err = one.values.Check(value, nothingKey)
		return err
	}
	rng := newRandom(5)
	ops, elapsed, err := timed(1, length, func(w *worker) error {
		for w.running() {
			if _, _, err := one.get(rng.below(1 << 20)); err != nil {
				return err
			}
		}
		return nil
	})
	return nanosPerOp(ops, elapsed), err
}

func scanCost(p *Population, n *nothing, keysOnly bool, length time.Duration) (float64, error) {
	w := &walk{reader: n, keys: p.Keys, values: p.Values, present: Full(nothingKeys)}
	w.callback = w.entry
	scans, elapsed, err := timed(1, length, func(worker *worker) error {
		for worker.running() {
			if _, err := w.all(keysOnly); err != nil {
				return err
			}
		}
		return nil
	})
	return nanosPerOp(scans*nothingKeys, elapsed), err
}
