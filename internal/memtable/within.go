package memtable

import "bytes"

// Within returns how many entries have keys from lo, inclusive, to hi, exclusive, old
// versions included. nil is no bound. It also returns copies of up to about most of these
// keys, at even distances in each run.
func (t *Table) Within(lo, hi []byte, most int) (n int, keys [][]byte, err error) {
	set, err := t.snapshot()
	if err != nil {
		return 0, nil, err
	}
	defer t.dropSet(set)
	span := func(r *run) (from, to int) {
		to = len(r.items)
		if lo != nil {
			from = r.search(t, lo)
		}
		if hi != nil {
			to = max(from, r.search(t, hi))
		}
		return from, to
	}
	for _, r := range set.runs {
		from, to := span(r)
		n += to - from
	}
	if most <= 0 || n == 0 {
		return n, nil, nil
	}
	step := max(1, n/most)
	for _, r := range set.runs {
		for from, to := span(r); from < to; from += step {
			keys = append(keys, bytes.Clone(t.Key(r.items[from].ref)))
		}
	}
	return n, keys, nil
}
