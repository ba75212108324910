package spaces

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// snapshotsEvery is how often the dropper asks whether the snapshots have ended that
// still see a dropped keyspace.
const snapshotsEvery = time.Second

// A tombstone is the deletion of a dropped keyspace.
type tombstone struct {
	at     base.SeqNum // the version of its commit, 0 while Drop commits it
	failed *Handle     // the handle of a Drop whose commit failed; the dropper repeats it
	held   bool        // the dropper has found keys, which an older snapshot may see
	found  bool        // an earlier process committed it, and a crash may have taken a later one
}

// Drop drops the keyspace with a name. After an error of the commit, the keyspace is
// dropped nonetheless: the dropper repeats the commit.
func (r *Registry) Drop(ctx context.Context, name string) error {
	ctx, end, err := r.o.Group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	// A power cut must not take a commit that came before, such as a copy of the keyspace.
	if err := r.o.Commits.SyncLog(); err != nil {
		return fmt.Errorf("drop keyspace %q: %w", name, err)
	}
	h, err := r.undefine(name)
	if err != nil {
		return err
	}
	defer r.o.Dropped()
	if mutant.On(mutant.DropWithoutTombstone) {
		return nil
	}
	if err := r.deleteHandle(ctx, h); err != nil {
		r.tombstones.Store(h.Space.Number(), tombstone{failed: h})
		return fmt.Errorf("drop the data of keyspace %q: %w", name, work.Ended(ctx, err))
	}
	return nil
}

// deleteHandle is deleteAll for an open keyspace. No reader finds the keyspace empty: those that
// see the deletion learn that the keyspace is gone.
func (r *Registry) deleteHandle(ctx context.Context, h *Handle) error {
	_, err := r.deleteAll(ctx, &h.Space, func(seq base.SeqNum) { h.deleted.Store(uint64(seq)) })
	return err
}

// undefine takes the name of a keyspace away, and shuts its gate.
func (r *Registry) undefine(name string) (*Handle, error) {
	r.defining.Lock()
	defer r.defining.Unlock()
	h := r.handlesLocked()[name]
	if h == nil {
		return nil, fmt.Errorf("%w: %q", base.ErrNoKeyspace, name)
	}
	s := r.o.Store.State()
	old, _ := s.Keyspace(h.Space.Number())
	k := *old
	k.Dropping = true
	r.tombstones.Store(k.Number, tombstone{})
	if err := r.record(manifest.Edit{PutKeyspaces: []*manifest.Keyspace{&k}}); err != nil {
		r.tombstones.Delete(k.Number)
		return nil, fmt.Errorf("drop keyspace %q: %w", name, err)
	}
	r.raises.forget(k.Number) // no job frees single versions: the dropper frees all
	delete(r.defining.handles, name)
	h.Gate.Shut()
	return h, nil
}

// deleteAll commits the deletion of all keys of a keyspace, and returns the version of
// the commit. The commit is synced, so that the next Open need not repeat it. numbered, if it
// is not nil, is told the version before a reader sees it.
func (r *Registry) deleteAll(ctx context.Context, s *keyspace.Space, numbered func(seq base.SeqNum)) (base.SeqNum, error) {
	w := r.o.Commits.NewWriteSet()
	defer r.o.Commits.FreeWriteSet(w)
	lo, hi := s.Bounds()
	meta := base.Meta{Kind: base.KindDeleteRange}
	if err := w.Pending.Set(lo, hi, base.Hash(lo, r.o.HashSeed), meta, 0); err != nil {
		return 0, err
	}
	w.Pending.LiveLen() // the pipeline expects it before it takes its locks
	request := w.Request(r.o.Store.Visible(), true)
	request.Numbered(numbered)
	if err := r.o.Commits.Submit(ctx, request); err != nil {
		return 0, err
	}
	r.tombstones.Store(s.Number(), tombstone{at: request.Seq()})
	return request.Seq(), nil
}

// Dropping reports whether a dropped keyspace is not forgotten yet.
func (r *Registry) Dropping() bool {
	return slices.ContainsFunc(r.o.Store.State().Keyspaces, func(k *manifest.Keyspace) bool { return k.Dropping })
}

// Step is the step of the dropper: it frees what dropped keyspaces hold, and forgets
// those that hold nothing.
func (r *Registry) Step() (again time.Duration, err error) {
	ctx := r.o.Group.Stopped()
	table := r.o.Store.State().Keyspaces
	oldest := r.o.Store.OldestSnapshot()
	r.freeTogether(ctx, table, oldest)
	var gone []uint32
	var failed error
	for _, k := range table {
		if !k.Dropping {
			continue
		}
		empty, err := r.empty(ctx, k.Number, oldest)
		if errors.Is(err, context.Canceled) { // only Close cancels ctx
			err = work.ErrStopped
		}
		if err != nil {
			r.o.Commits.JobFailed(fmt.Errorf("free keyspace %q: %w", k.Name, err))
			failed = cmp.Or(failed, err)
			continue // with those that can be freed
		}
		if empty {
			gone = append(gone, k.Number)
		} else {
			again = snapshotsEvery
		}
	}
	if len(gone) > 0 {
		if err := r.forget(gone); err != nil {
			return 0, err
		}
		for _, number := range gone {
			r.tombstones.Delete(number)
		}
	}
	if failed != nil {
		return 0, failed
	}
	return again, nil
}

// freeTogether frees dropped keyspaces that are neighbours as one range. Thousands of small
// ones may share a table, which freeing one after the other would rewrite as often. It leaves
// the rest to empty, also all errors.
func (r *Registry) freeTogether(ctx context.Context, table []*manifest.Keyspace, oldest base.SeqNum) {
	var lo, hi []byte
	n := 0
	free := func() {
		if n > 1 {
			_ = r.o.Free(ctx, lo, hi) // empty tries again
		}
		n = 0
	}
	for _, k := range table {
		if !k.Dropping || !r.unseen(k.Number, oldest) {
			free()
			continue
		}
		s := keyspace.New(k.Number)
		if held, err := r.holds(&s); !held || err != nil {
			continue
		}
		from, to := s.Bounds()
		if n == 0 {
			lo = from
		}
		hi = to
		n++
	}
	free()
}

// unseen reports whether no snapshot from oldest on sees the keys of a dropped keyspace, as far
// as is known.
func (r *Registry) unseen(number uint32, oldest base.SeqNum) bool {
	known, ok := r.tombstones.Load(number)
	t, _ := known.(tombstone)
	return !ok || t.failed == nil && t.at != 0 && oldest >= t.at
}

// forget removes dropped keyspaces from the table.
func (r *Registry) forget(gone []uint32) error {
	r.defining.Lock()
	defer r.defining.Unlock()
	return r.record(manifest.Edit{ForgetKeyspaces: gone})
}

// empty does the next step for a dropped keyspace, and reports whether none of its
// keys is left. oldest was the oldest snapshot at the beginning of the step. Once empty has
// found keys, it reads no memtable and no table before the older snapshots have ended.
func (r *Registry) empty(ctx context.Context, number uint32, oldest base.SeqNum) (bool, error) {
	known, ok := r.tombstones.Load(number)
	switch t, _ := known.(tombstone); {
	case t.failed != nil: // also if no key is left: readers must learn it
		if err := r.deleteHandle(ctx, t.failed); err != nil {
			return false, err
		}
	case ok && t.at == 0, t.held && oldest < t.at:
		return false, nil
	}
	s := keyspace.New(number)
	held, err := r.holds(&s)
	if err != nil || !held {
		return !held, err
	}
	if mutant.On(mutant.ForgetEarly) || mutant.On(mutant.DropWithoutTombstone) {
		return mutant.On(mutant.ForgetEarly), nil
	}
	seq, err := r.deletedAt(ctx, &s)
	if err != nil || seq == 0 {
		return false, err
	}
	if r.o.Store.OldestSnapshot() < seq { // not oldest: this step may have committed seq
		found := r.found(number)
		r.tombstones.Store(number, tombstone{at: seq, held: true, found: found})
		return false, nil
	}
	lo, hi := s.Bounds()
	if err := r.o.Free(ctx, lo, hi); err != nil {
		return false, err
	}
	if held, err = r.holds(&s); !held || err != nil {
		return !held, err
	}
	if r.found(number) {
		// A crash took the deletion, and deletedAt found an older one of the same range.
		_, err = r.deleteAll(ctx, &s, nil)
	}
	// Otherwise a merge that began before has kept deleted keys. The next step frees them.
	return false, err
}

// found reports whether deletedAt has found the deletion of a keyspace.
func (r *Registry) found(number uint32) bool {
	known, _ := r.tombstones.Load(number)
	t, _ := known.(tombstone)
	return t.found
}

// deletedAt returns the version that deleted a dropped keyspace. It commits the
// deletion if a crash has taken it. Version 0 means that no key is left.
func (r *Registry) deletedAt(ctx context.Context, s *keyspace.Space) (base.SeqNum, error) {
	if known, ok := r.tombstones.Load(s.Number()); ok {
		return known.(tombstone).at, nil
	}
	seq, uncovered, err := r.cover(s)
	switch {
	case err != nil:
		return 0, err
	case uncovered:
		return r.deleteAll(ctx, s, nil)
	case seq != 0: // with 0, background jobs have removed the last keys meanwhile
		r.tombstones.Store(s.Number(), tombstone{at: seq, found: true})
	}
	return seq, nil
}

// cover returns the version of the newest range deletion over the keys that are left
// of a keyspace, or 0 if none is left. uncovered says that no range deletion covers one
// of them.
func (r *Registry) cover(s *keyspace.Space) (newest base.SeqNum, uncovered bool, err error) {
	slot, err := r.o.Store.Acquire()
	if err != nil {
		return 0, false, work.ErrStopped
	}
	defer r.o.Store.Release(slot)
	v := r.o.Store.Pin(slot)
	var ranges rangedel.Cursor
	ranges.Init(false)
	for _, t := range v.Memtables {
		t.AddDeletions(&ranges, base.SeqNumMax)
	}
	if err = fault.Guard(func() error { return v.Tree.AddDeletions(&ranges, base.SeqNumMax) }); err != nil {
		return 0, false, err
	}
	for from, hi := s.Bounds(); ; {
		key, err := next(v, from, hi)
		if key == nil || err != nil {
			return newest, false, err
		}
		seq, until := ranges.At(key)
		if seq == 0 || mutant.On(mutant.DeleteTwice) {
			return 0, true, nil
		}
		if newest = max(newest, seq); until == nil {
			return newest, false, nil
		}
		from = until
	}
}

// holds reports whether memtables or tables have keys of a keyspace.
func (r *Registry) holds(s *keyspace.Space) (bool, error) {
	slot, err := r.o.Store.Acquire()
	if err != nil {
		return false, work.ErrStopped
	}
	defer r.o.Store.Release(slot)
	lo, hi := s.Bounds()
	key, err := next(r.o.Store.Pin(slot), lo, hi)
	return key != nil, err
}

// next returns the first key in a range that memtables or tables have, or nil.
func next(v *state.View, lo, hi []byte) (key []byte, err error) {
	for _, t := range v.Memtables {
		var it memtable.Iter
		it.Init(t, false)
		key, err = first(&it, lo, hi, key)
		it.Close()
		if err != nil {
			return nil, err
		}
	}
	err = fault.Guard(func() error {
		for level := 0; level < v.Tree.Depth() && err == nil; level++ {
			var it tree.Iter
			it.Init(v.Tree, level, table.IterOptions{KeysOnly: true})
			key, err = first(&it, lo, hi, key)
			it.Close()
		}
		return err
	})
	return key, err
}

// first returns the first key of a source in a range, or known if that comes first. A
// nil known is behind all keys.
func first(source iter.Source, lo, hi, known []byte) ([]byte, error) {
	var b iter.Batch
	b.Want = 1
	source.Seek(lo)
	if err := source.Fill(&b); err != nil {
		return nil, err
	}
	if b.N == 0 || bytes.Compare(b.Entries[0].Key, hi) >= 0 || known != nil && bytes.Compare(b.Entries[0].Key, known) >= 0 {
		return known, nil
	}
	return bytes.Clone(b.Entries[0].Key), nil
}
