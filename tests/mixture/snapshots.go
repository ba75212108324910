package mixture

import (
	"fmt"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// clockName is the keyspace with a key that a snapshot reads to settle its time. A
// transaction judges expiry by the time of its first read of a key with an expiry.
const clockName = "the clock"

// A held is a snapshot that stays open, as a stoat.Snapshot or as a transaction.
type held struct {
	snapshot *stoat.Snapshot // or nil
	tx       stoat.Txn
	seq      uint64
	now      uint64   // the time by which it judges expiry
	spaces   []*space // the keyspaces of that moment
	// seen has what the filtered keyspaces showed. A filter may not change it any more.
	seen map[*space]map[string]candidate
	// it is an open iterator beside the same one of the model, or nil.
	it    stoat.Iterator
	model *model.Iterator
}

func (h *held) close() {
	if h.snapshot != nil {
		h.snapshot.Close()
	}
	h.tx.Discard()
}

// release closes all held snapshots.
func (r *run) release() {
	for _, h := range r.held {
		h.close()
	}
	r.held = nil
}

// heldMax is the number of snapshots that are open at once.
const heldMax = 3

// hold opens a snapshot. If there are too many, it closes the oldest one instead.
func (r *run) hold() error {
	if len(r.held) == heldMax {
		r.held[0].close()
		r.held = r.held[1:]
		return nil
	}
	h := &held{seen: map[*space]map[string]candidate{}}
	if err := r.openHeld(h); err != nil {
		return err
	}
	h.now, h.spaces = r.now(), r.current()
	if h.snapshot == nil && r.rng.IntN(2) == 0 {
		r.holdIterator(h)
	}
	r.note("  at %d, iterator %v", h.seq, h.model != nil)
	r.held = append(r.held, h)
	if h.seq != r.last {
		return fmt.Errorf("a snapshot is at %d, want %d", h.seq, r.last)
	}
	return r.look(h)
}

func (r *run) openHeld(h *held) (err error) {
	if r.rng.IntN(2) == 0 {
		if h.snapshot, err = r.db.Snapshot(stoat.SnapshotOptions{}); err == nil {
			h.seq = h.snapshot.Version()
		}
		return err
	}
	w := write{space: r.named(clockName), op: set, key: "time", value: "t", expires: 4 * testkit.ClockStart}
	err = r.db.Update(func(tx stoat.Txn) error { return w.toTxn(tx) })
	synced := r.opts.Durability == stoat.Synced
	if err = r.committed(err, 0, synced, func() error { return r.commit([]write{w}) }); err != nil {
		return err
	}
	if h.tx, err = r.db.Begin(stoat.ReadOnly); err != nil {
		return err
	}
	h.seq = h.tx.ReadVersion()
	_, err = h.tx.In(w.space.ks).Get([]byte(w.key))
	return err
}

// holdIterator opens an iterator over a keyspace, if it draws a plain one.
func (r *run) holdIterator(h *held) {
	s := h.spaces[r.rng.IntN(len(h.spaces))]
	if s.kind != plain {
		return
	}
	reverse := r.rng.IntN(2) == 0
	h.it = h.tx.In(s.ks).Iterator(stoat.IterOptions{Reverse: reverse})
	t := s.history.Begin(h.seq, false)
	t.NowMs = h.now
	h.model = t.Iterator(model.IterOptions{Reverse: reverse})
}

// lookAgain compares a held snapshot with the model again.
func (r *run) lookAgain() error {
	if len(r.held) == 0 {
		return nil
	}
	h := r.held[r.rng.IntN(len(r.held))]
	r.note("  at the snapshot %d", h.seq)
	return r.look(h)
}

// look compares a held snapshot with the model, and with what it showed before.
func (r *run) look(h *held) error {
	view := func(tx stoat.Txn) error {
		for _, s := range h.spaces {
			if err := r.lookAt(h, tx.In(s.ks), s); err != nil {
				return fmt.Errorf("held snapshot %d, %v: %w", h.seq, s, err)
			}
		}
		return nil
	}
	if h.snapshot != nil {
		return h.snapshot.View(view)
	}
	if h.model != nil {
		if err := r.moveHeld(h); err != nil {
			return fmt.Errorf("held iterator at %d: %w", h.seq, err)
		}
	}
	return view(h.tx)
}

func (r *run) lookAt(h *held, tx stoat.Txn, s *space) error {
	if s.kind != filtered {
		return compareSpace(r.rng, tx, s, h.now)
	}
	seen, err := compareFiltered(r.rng, tx, s, h.now)
	if err != nil {
		return err
	}
	before := h.seen[s]
	h.seen[s] = seen
	if before == nil {
		return nil
	}
	for key, c := range before {
		if seen[key] != c {
			return fmt.Errorf("key %q was %.20q, is %.20q", key, c.value, seen[key].value)
		}
	}
	if len(seen) != len(before) {
		return fmt.Errorf("%d keys were %d", len(seen), len(before))
	}
	return nil
}

// moveHeld moves a held iterator up to nine times.
func (r *run) moveHeld(h *held) error {
	for range r.rng.IntN(10) {
		ok, want := h.it.Next(), h.model.Next()
		if err := h.it.Err(); err != nil {
			return err
		}
		if ok != want {
			return fmt.Errorf("found %v, want %v", ok, want)
		}
		if !ok {
			return nil
		}
		if got, err := testkit.ItemOf(h.it.Item()); err != nil || got != h.model.Item() {
			return fmt.Errorf("%v, error %v, want %v", got, err, h.model.Item())
		}
	}
	return nil
}
