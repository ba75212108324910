package timestamps

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat"
)

// An ownWrite is what a transaction writes before it reads: a version of a key, a purge of
// that key, or nothing.
type ownWrite struct {
	version
	sets, purges bool
}

// apply applies the write to a model.
func (w *ownWrite) apply(m modelSpace) {
	switch {
	case w.sets:
		m.put(w.version)
	case w.purges:
		m.purge(w.key, w.key+"\x00")
	}
}

// writeOwn draws an ownWrite of a key, up to a timestamp, and writes it.
func (r *run) writeOwn(tx stoat.Txn, i int, key string, at uint64) (*ownWrite, error) {
	w := &ownWrite{version: version{key: key, at: at}}
	switch r.rng.IntN(6) {
	case 0:
		w.purges = true
		return w, tx.At(at).PurgeRange([]byte(key), []byte(key+"\x00"))
	case 1:
		w.at -= r.rng.Uint64N(at - r.floors[i] + 1)
		fallthrough
	case 2:
		w.sets = true
		opts := r.draft(&w.version)
		return w, tx.At(w.at).Set([]byte(key), []byte(w.value), opts...)
	}
	return w, nil
}

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
	own, err := r.writeOwn(first.In(r.spaces[i]), i, key, q.at)
	if err != nil {
		return err
	}
	own.apply(old)
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
	next := r.models[i].clone()
	own.apply(next)
	must, may := r.changed(q, key, scans, r.wrote[i], old, next, own)
	if i == 1 {
		must, may = false, false // unchecked
	}
	r.work.conflicts++
	if got := err != nil; must && !got || got && !may {
		return fmt.Errorf("a read of %q (scans %v: %+v) in %s: conflict %v, want at least %v and at most %v; was %s, is %s",
			key, scans, q, r.names[i], got, must, may, brief(old[key]), brief(next[key]))
	}
	if err == nil {
		r.models = slices.Clone(r.models)
		r.models[i] = next
	}
	return nil
}

// changed reports whether a commit changed what was read, and whether it wrote or purged
// a version that may count as read. old and next are what the reader finds before and after
// the commit, with its own write.
func (r *run) changed(q query, key string, scans bool, wrote, old, next modelSpace, own *ownWrite) (must, may bool) {
	now, purged := r.clock.Seen(), r.purged
	if !scans {
		q.lo, q.hi, q.all = key, key+"\x00", false
	}
	before, after := old.scan(q, now), next.scan(q, now)
	must = len(before) != len(after)
	for j := 0; j < len(before) && !must; j++ {
		must = before[j] != after[j]
	}
	q.all = true
	read := wrote.scan(q, now)
	latest, _ := old.find(key, q.at, now)
	switch {
	case scans:
	case own.purges:
		return must, false
	case own.sets && latest.at == own.at: // the key is read above its own version
		read = slices.DeleteFunc(read, func(v version) bool { return v.at <= own.at })
		purged = purged && own.at < q.at
	}
	return must, len(read) > 0 || purged
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
