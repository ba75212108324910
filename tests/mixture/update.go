package mixture

import (
	"fmt"

	"github.com/stoatdb/stoat"
)

// update commits a transaction, or discards it.
func (r *run) update() error {
	some := r.some()
	first := r.write(some[0])
	for first.op != set && first.op != del { // other writes may change nothing, and then there is no commit
		first = r.write(some[0])
	}
	writes := []write{first}
	n := 1 + r.rng.IntN(12)
	if r.rng.IntN(10) == 0 {
		n = 100
	}
	for range n {
		writes = append(writes, r.write(some[r.rng.IntN(len(some))]))
	}
	tx, err := r.db.Begin(stoat.ReadWrite)
	if err != nil {
		return r.excuse(err, nil)
	}
	defer tx.Discard()
	for _, w := range writes {
		r.note("  %v", w)
		if err := w.toTxn(tx); err != nil {
			return r.excuse(fmt.Errorf("%v: %w", w, err), nil)
		}
	}
	if r.rng.IntN(3) == 0 && r.trouble == nil {
		if err := r.ownReads(tx, some, writes); err != nil {
			return fmt.Errorf("own reads: %w", err)
		}
	}
	if r.rng.IntN(15) == 0 {
		r.note("  discard")
		return nil
	}
	d, synced := r.durability()
	r.note("  commit %d, durable %v", r.last+1, synced)
	err = tx.Commit(stoat.WithDurability(d))
	return r.committed(err, tx.CommitVersion(), synced, func() error { return r.commit(writes) })
}
