package timestamps

import (
	"errors"
	"fmt"

	"github.com/stoatdb/stoat"
)

// conflict lets a transaction read, another one commit, and then the first one commit.
func (r *run) conflict() error {
	i := r.rng.IntN(len(r.spaces))
	old := r.models[i].clone()
	first, err := r.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer first.Discard()
	q := query{at: r.floors[i] + r.rng.Uint64N(timesMax/2), reverse: r.rng.IntN(2) == 0, all: r.rng.IntN(3) == 0}
	key, scans := r.key(), r.rng.IntN(2) == 0
	t := first.In(r.spaces[i]).At(q.at)
	if scans {
		q.lo, q.hi = r.key(), r.key()
		it := t.Iterator(stoat.IterOptions{Lower: []byte(q.lo), Upper: []byte(q.hi), Reverse: q.reverse, AllVersions: q.all})
		for it.Next() { //nolint:revive // the iterator reads
		}
		err = it.Close()
	} else {
		_, err = t.Has([]byte(key))
	}
	if err != nil {
		return err
	}
	if r.rng.IntN(4) == 0 {
		if err := r.fill(); err != nil {
			return err
		}
	}
	r.aim = q.at
	defer func() { r.aim = 0 }()
	if err := r.writeSome(1 + r.rng.IntN(2)); err != nil {
		return err
	}
	if err := first.In(nil).Set([]byte("first"), nil); err != nil {
		return err
	}
	err = first.Commit()
	if err != nil && !errors.Is(err, stoat.ErrConflict) {
		return err
	}
	must, may := r.changed(q, key, scans, i, old)
	if i == 1 {
		must, may = false, false // unchecked
	}
	r.work.conflicts++
	if got := err != nil; must && !got || got && !may {
		return fmt.Errorf("a read of %q (scans %v: %+v) in %s: conflict %v, want at least %v and at most %v; was %s, is %s",
			key, scans, q, r.names[i], got, must, may, brief(old[key]), brief(r.models[i][key]))
	}
	return nil
}

// changed reports whether a commit changed what was read, and whether it wrote or purged
// a version that may count as read.
func (r *run) changed(q query, key string, scans bool, i int, old modelSpace) (must, may bool) {
	now, m := r.clock.Seen(), r.models[i]
	if !scans {
		q.lo, q.hi, q.all = key, key+"\x00", false
	}
	before, after := old.scan(q, now), m.scan(q, now)
	must = len(before) != len(after)
	for j := 0; j < len(before) && !must; j++ {
		must = before[j] != after[j]
	}
	q.all = true
	return must, len(r.wrote[i].scan(q, now)) > 0 || r.purged
}

// late raises the discard point above a version that a transaction is about to commit.
func (r *run) late() error {
	i := r.rng.IntN(len(r.spaces))
	tx, err := r.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	at := r.floors[i]
	for _, at := range []uint64{at + 1, at, at + 2} {
		if err := tx.In(r.spaces[i]).At(at).Set([]byte(r.key()), nil); err != nil {
			return err
		}
	}
	if err := r.discardTo(i, at+1); err != nil {
		return err
	}
	if err := tx.Commit(); !errors.Is(err, stoat.ErrTimestampDiscarded) {
		return fmt.Errorf("a commit below the discard point returns %w", err)
	}
	return nil
}
