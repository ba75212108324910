package mixture

import (
	"cmp"
	"context"
	"slices"

	"github.com/stoatdb/stoat"
)

// ingest adds entries to one keyspace, sorted ones or by a bulk load.
func (r *run) ingest() error {
	s := r.some()[0]
	n := 1 + r.rng.IntN(30)
	if r.rng.IntN(6) == 0 {
		n = 200
	}
	var writes []write
	for range n {
		writes = append(writes, r.newSet(s))
	}
	load := r.db.BulkLoad
	if r.rng.IntN(2) == 0 {
		load, writes = r.db.IngestEntries, sorted(writes)
	}
	for _, w := range writes {
		r.note("  %v", w)
	}
	r.note("  ingest %d entries as %d", len(writes), r.last+1)
	o := stoat.IngestOptions{Keyspace: s.ks, Memory: 1 + r.rng.Int64N(20_000)}
	done, err := load(context.Background(), entriesOf(writes), o)
	return r.committed(err, done.Version, true, func() error { return r.commit(writes) })
}

// sorted returns writes in the order of an ingest: by key, the latest timestamp first. Of
// equal ones, one stays.
func sorted(writes []write) []write {
	order := func(a, b write) int {
		if a.space.kind != timed {
			return cmp.Compare(a.key, b.key)
		}
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(b.at, a.at))
	}
	slices.SortStableFunc(writes, order)
	return slices.CompactFunc(writes, func(a, b write) bool { return order(a, b) == 0 })
}

// entriesOf returns sets as entries of an ingest.
func entriesOf(writes []write) func(yield func(stoat.Entry, error) bool) {
	return func(yield func(stoat.Entry, error) bool) {
		for _, w := range writes {
			e := stoat.Entry{Key: []byte(w.key), Value: []byte(w.value), Options: w.options()}
			if w.space.kind == timed {
				e.Timestamp = w.at
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
