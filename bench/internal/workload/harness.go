package workload

import (
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A nullStore returns prepared answers: one value for every get, and for every
// scan a few entries that stay in the processor's cache. It shows what the
// harness itself costs.
type nullStore struct {
	value []byte
	keys  []Key
	all   [][]byte // the values of the keys
}

// nullStoreKeys is the number of entries of a nullStore.
const nullStoreKeys = 128

// newNullStore returns a nullStore of count entries.
func newNullStore(p *Population, count int) *nullStore {
	n := &nullStore{keys: make([]Key, count)}
	for i := range n.keys {
		p.Keys.Put(&n.keys[i], uint64(i))
		value := make([]byte, p.Values.Size)
		p.Values.Fill(value, uint64(i), 0)
		n.all = append(n.all, value)
	}
	n.value = n.all[min(nullStoreKey, count-1)]
	return n
}

// nullStoreKey is the number of the key whose value every get returns.
const nullStoreKey = 42

func (n *nullStore) Get(_ []byte, fn func([]byte) error) (bool, error) { return true, fn(n.value) }
func (n *nullStore) Close() error                                      { return nil }

func (n *nullStore) Scan(o stores.ScanOptions, fn func(key, value []byte) error) error {
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

// HarnessCost is the time of the harness itself, in nanoseconds per operation.
type HarnessCost struct {
	GetNanos  float64 // drawing a key, writing it, and checking the ends of a cached value
	ScanNanos float64 // parsing a key, checking its order, and checking the ends of its value
	KeysNanos float64 // the same as ScanNanos without the value
	// WholeNanos is ScanNanos with a check of all bytes, by the size of the values.
	WholeNanos map[int]float64
}

// WholeSizes are the sizes of values of HarnessCost.WholeNanos.
var WholeSizes = []int{128, 1 << 10, 16 << 10}

// MeasureHarness measures each cost for the given time.
func MeasureHarness(length time.Duration) (HarnessCost, error) {
	p := NewPopulation(nullStoreKeys, Values{Size: 128})
	n := newNullStore(&p, nullStoreKeys)
	c := HarnessCost{WholeNanos: map[int]float64{}}
	var err error
	if c.GetNanos, err = getCost(&p, n, length); err != nil {
		return c, err
	}
	if c.ScanNanos, err = scanCost(&p, n, scanPhase{}, length); err != nil {
		return c, err
	}
	if c.KeysNanos, err = scanCost(&p, n, scanPhase{keysOnly: true}, length); err != nil {
		return c, err
	}
	for _, size := range WholeSizes {
		// The values stay in the processor's first cache, which has 32 KiB or more.
		count := max(1, min(nullStoreKeys, 16<<10/size))
		p := NewPopulation(uint64(count), Values{Size: size})
		if c.WholeNanos[size], err = scanCost(&p, newNullStore(&p, count), scanPhase{whole: true}, length); err != nil {
			return c, err
		}
	}
	return c, nil
}

func getCost(p *Population, n *nullStore, length time.Duration) (float64, error) {
	one := &probe{reader: n, keys: p.Keys, values: p.Values}
	one.callback = func(value []byte) (err error) {
		one.version, err = one.values.Check(value, nullStoreKey)
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

func scanCost(p *Population, n *nullStore, phase scanPhase, length time.Duration) (float64, error) {
	w := &walk{reader: n, keys: p.Keys, values: p.Values, present: Full(uint64(len(n.keys)))}
	w.callback = w.entry
	w.set(phase)
	scans, elapsed, err := timed(1, length, func(worker *worker) error {
		for worker.running() {
			if _, err := w.all(phase.keysOnly); err != nil {
				return err
			}
		}
		return nil
	})
	return nanosPerOp(scans*uint64(len(n.keys)), elapsed), err
}
