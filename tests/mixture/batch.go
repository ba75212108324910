package mixture

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat"
)

// batch commits a batch, in one piece or in several. Several have no timed keyspaces, because
// piecesOf does not know the length of stored timestamps.
func (r *run) batch() error {
	o := stoat.BatchOptions{Size: 1 << 30}
	some := r.some()
	if r.rng.IntN(2) == 0 {
		o = stoat.BatchOptions{Size: int64(300 + r.rng.IntN(8000)), Pieces: true}
		some = slices.DeleteFunc(some, func(s *space) bool { return s.kind == timed })
	}
	if len(some) == 0 {
		some = r.current()[:1]
	}
	var writes []write
	for range 1 + r.rng.IntN(60) {
		w := r.write(some[r.rng.IntN(len(some))])
		for w.op == renew {
			w = r.write(w.space)
		}
		writes = append(writes, w)
	}
	pieces := piecesOf(writes, o.Size)
	d, synced := r.durability()
	r.note("  %+v, %d pieces from %d on, durable %v", o, len(pieces), r.last+1, synced)
	b := r.db.NewBatch(o)
	defer b.Discard()
	if err := r.fill(b, writes, d); err != nil {
		return r.failedBatch(err, b.CommitVersion(), pieces)
	}
	for _, p := range pieces {
		if err := r.commit(p); err != nil {
			return err
		}
	}
	if synced {
		r.durable = r.last
	}
	if got := b.CommitVersion(); got != r.last {
		return fmt.Errorf("the batch has version %d, want %d", got, r.last)
	}
	return nil
}

func (r *run) fill(b stoat.Batch, writes []write, d stoat.Durability) error {
	for _, w := range writes {
		r.note("  %v", w)
		if err := w.toBatch(b); err != nil {
			return err
		}
	}
	return b.Commit(stoat.WithDurability(d))
}

// failedBatch handles an error of a batch whose pieces are committed up to a version, which
// is 0 if none is.
func (r *run) failedBatch(err error, version uint64, pieces [][]write) error {
	first := r.last
	for len(pieces) > 0 && r.last < version {
		if e := r.commit(pieces[0]); e != nil {
			return errors.Join(e, err)
		}
		pieces = pieces[1:]
	}
	if version != 0 && (version == first || r.last != version) {
		return fmt.Errorf("the failed batch has version %d, and began after %d: %w", version, first, err)
	}
	if len(pieces) == 0 {
		return r.excuse(err, nil)
	}
	return r.excuse(err, func() error { return r.commit(pieces[0]) })
}

// piecesOf splits writes as BatchOptions.Size documents it.
func piecesOf(writes []write, sizeBytes int64) (pieces [][]write) {
	used := int64(0)
	for _, w := range writes {
		n := int64(len(w.key) + 32)
		switch w.op {
		case set, merge:
			n += int64(len(w.value))
		case delRange:
			n += int64(len(w.end) + 700)
		}
		if used == 0 || used+n > sizeBytes {
			pieces, used = append(pieces, nil), 0
		}
		pieces[len(pieces)-1] = append(pieces[len(pieces)-1], w)
		used += n
	}
	return pieces
}
