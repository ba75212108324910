package schedules

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/work"
)

// A sideSpace is a keyspace beside that of most keys, with its model. An actor creates it,
// raises its discard point and drops it, and the dropper frees it. There is one at a time.
type sideSpace struct {
	ks *stoat.Keyspace
	// timed says that the keyspace has timestamps. Otherwise all timestamps are 0.
	timed bool
	floor uint64 // the discard point
	// writes are those of all commits, in their order.
	writes []sideWrite
	// dropping says that a drop has begun, which commits a deletion as deleted.
	dropping bool
	deleted  uint64
}

// A sideWrite is a version of one key, or the deletion of a range of keys at all timestamps.
type sideWrite struct {
	key, end string // the end of a range, or ""
	at, seq  uint64
	value    string
	deleted  bool
}

// sideName is the name of all such keyspaces.
const sideName = "side"

// sideTimes is how many timestamps from the discard point on are drawn.
const sideTimes = 5

// find returns what a key has at a timestamp, as of a snapshot and under the writes of a
// transaction, with deletions.
func (s *sideSpace) find(own []sideWrite, key string, at, seq uint64) (found sideWrite, ok bool) {
	versions := map[uint64]sideWrite{}
	for _, v := range append(s.writes[:len(s.writes):len(s.writes)], own...) {
		switch {
		case v.seq > seq:
		case v.end != "" && v.key <= key && key < v.end:
			clear(versions)
		case v.end == "" && v.key == key && v.at <= at:
			versions[v.at] = v
		}
	}
	for _, v := range versions {
		if !ok || v.at > found.at {
			found, ok = v, true
		}
	}
	return found, ok
}

// goneFor reports whether a snapshot is one after the drop.
func (s *sideSpace) goneFor(seq uint64) bool { return s.deleted != 0 && seq >= s.deleted }

// at returns the transaction in the keyspace at a timestamp.
func (s *sideSpace) at(tx stoat.Txn, at uint64) sideTxn {
	if s.timed {
		return timedSide{tx.In(s.ks).At(at)}
	}
	return plainSide{tx.In(s.ks)}
}

// A sideTxn is a transaction in the keyspace, with timestamps or without.
type sideTxn interface {
	Get(key []byte) ([]byte, error)
	Set(key, value []byte, opts ...stoat.SetOption) error
	Delete(key []byte) error
	DeleteRange(lo, hi []byte) error
	walk(reverse bool) sideIterator
}

type sideIterator interface {
	Next() bool
	Key() []byte
	Value() []byte
	Close() error
}

type plainSide struct{ stoat.Txn }

func (t plainSide) walk(reverse bool) sideIterator {
	return t.Iterator(stoat.IterOptions{Reverse: reverse})
}

type timedSide struct{ stoat.TimedTxn }

func (t timedSide) DeleteRange(lo, hi []byte) error { return t.PurgeRange(lo, hi) }
func (t timedSide) walk(reverse bool) sideIterator {
	return t.Iterator(stoat.IterOptions{Reverse: reverse})
}

// An aside is what a transaction did in the side keyspace.
type aside struct {
	in    *sideSpace
	seq   uint64 // the snapshot
	own   []sideWrite
	reads []sideRead
}

// A sideRead is what a read of a key at a timestamp looked at: the timestamps from there
// back to the one that it found.
type sideRead struct {
	key      string
	at, back uint64
}

// dirty reports whether the transaction has written there.
func (s *aside) dirty() bool { return s != nil && len(s.own) > 0 }

// conflicts reports whether a later commit wrote what the transaction read.
func (s *aside) conflicts() bool {
	if s == nil || len(s.reads) == 0 {
		return false
	}
	return s.in.deleted > s.seq || slices.ContainsFunc(s.in.writes, func(v sideWrite) bool {
		return v.seq > s.seq && slices.ContainsFunc(s.reads, v.hits)
	})
}

func (v *sideWrite) hits(r sideRead) bool {
	if v.end != "" {
		return v.key <= r.key && r.key < v.end
	}
	return v.key == r.key && r.back <= v.at && v.at <= r.at
}

// applied gives the writes the number of their commit. It returns an error if the commit
// should have failed.
func (s *aside) applied(seq uint64) error {
	if !s.dirty() {
		return nil
	}
	if s.in.dropping {
		return errors.New("committed into a keyspace that was dropped")
	}
	for _, v := range s.own {
		if v.at < s.in.floor && v.end == "" {
			return fmt.Errorf("committed at %d, below the discard point %d", v.at, s.in.floor)
		}
		v.seq = seq
		s.in.writes = append(s.in.writes, v)
	}
	return nil
}

// refuses reports whether the commit may fail with an error because of what the transaction
// wrote there.
func (s *aside) refuses(err error) bool {
	switch {
	case !s.dirty():
		return false
	case errors.Is(err, stoat.ErrNoKeyspace):
		return s.in.dropping
	case errors.Is(err, stoat.ErrTimestampDiscarded):
		return slices.ContainsFunc(s.own, func(v sideWrite) bool { return v.at < s.in.floor })
	}
	return false
}

// anyTime draws a timestamp that may be read and written.
func (s *sideSpace) anyTime(rng *rand.Rand) uint64 {
	if !s.timed {
		return 0
	}
	return s.floor + rng.Uint64N(sideTimes)
}

// doAside does one thing to a random key of the side keyspace.
func (t *scheduleTxn) doAside(rng *rand.Rand) error {
	s := t.side.in
	key, at := anyKey(rng), s.anyTime(rng)
	v := sideWrite{key: key, at: at}
	tx := s.at(t.tx, at)
	var err error
	switch n := rng.IntN(10); {
	case n < 4:
		return t.getAside(key, at)
	case n < 7:
		v.value = t.w.value(key, anyLength(rng))
		err = tx.Set([]byte(key), []byte(v.value))
	case n < 9:
		v.deleted = true
		err = tx.Delete([]byte(key))
	default:
		v.end = anyKey(rng) + "x"
		if v.end <= v.key {
			return nil
		}
		err = tx.DeleteRange([]byte(v.key), []byte(v.end))
	}
	switch {
	case s.dropping && errors.Is(err, stoat.ErrNoKeyspace):
		return nil
	case s.dropping:
		return fmt.Errorf("a write to a keyspace that was dropped: %w", err)
	case err != nil:
		return fmt.Errorf("a write of %s at %d: %w", key, at, err)
	}
	t.side.own = append(t.side.own, v)
	return nil
}

// getAside reads a key at a timestamp.
func (t *scheduleTxn) getAside(key string, at uint64) error {
	t.w.did.asides++
	s, seq := t.side.in, t.tx.ReadVersion()
	got, err := s.at(t.tx, at).Get([]byte(key))
	if s.goneFor(seq) {
		if !errors.Is(err, stoat.ErrNoKeyspace) {
			return fmt.Errorf("snapshot %d after the drop as %d: get %s at %d: %q, %w", seq, s.deleted, key, at, got, err)
		}
		return nil
	}
	want, ok := s.find(t.side.own, key, at, seq)
	// The transaction's own write at the timestamp, or own deletion, answers alone.
	own := slices.ContainsFunc(t.side.own, func(v sideWrite) bool { return v.hits(sideRead{key, at, at}) })
	if !own {
		back := want.at // 0 if nothing was found
		if ok && want.seq == 0 {
			back++ // an own version is not read
		}
		t.side.reads = append(t.side.reads, sideRead{key, at, back})
	}
	ok = ok && !want.deleted
	if none := errors.Is(err, stoat.ErrNotFound); err != nil && !none || none == ok || string(got) != want.value {
		return fmt.Errorf("snapshot %d: get %s at %d: %q, %w, want %q %t", seq, key, at, got, err, want.value, ok)
	}
	return nil
}

// scanAside compares all keys at a timestamp.
func (t *scheduleTxn) scanAside(at uint64, reverse bool) error {
	s, seq := t.side.in, t.tx.ReadVersion()
	if s.goneFor(seq) {
		return nil
	}
	want := map[string]string{}
	for _, key := range scheduleKeys {
		if v, ok := s.find(t.side.own, key, at, seq); ok && !v.deleted {
			want[key] = v.value
		}
	}
	got, keys := map[string]string{}, []string(nil)
	it := s.at(t.tx, at).walk(reverse)
	for it.Next() {
		got[string(it.Key())] = string(it.Value())
		keys = append(keys, string(it.Key()))
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("scan at %d: %w", at, err)
	}
	if reverse {
		slices.Reverse(keys)
	}
	if !maps.Equal(got, want) || !slices.IsSorted(keys) {
		return fmt.Errorf("snapshot %d: scan at %d, reverse %t: %q as %s, want %q", seq, at, reverse, got, strings.Join(keys, " "), want)
	}
	return nil
}

// readAside compares the side keyspace as one snapshot shows it.
func (w *scheduleWorld) readAside(a *actor, rng *rand.Rand) error {
	return w.read(a, func(t *scheduleTxn) error {
		if t.side == nil {
			return nil
		}
		for range 1 + rng.IntN(4) {
			if err := t.getAside(anyKey(rng), t.side.in.anyTime(rng)); err != nil {
				return err
			}
			if err := a.stop(pointBetween); err != nil {
				return err
			}
			if err := t.scanAside(t.side.in.anyTime(rng), rng.IntN(2) == 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// manageAside creates the side keyspace, raises its discard point, or drops it.
func (w *scheduleWorld) manageAside(a *actor, rng *rand.Rand) error {
	switch s := w.side; {
	case s == nil:
		s = &sideSpace{timed: rng.IntN(2) == 0}
		if err := s.open(w.db); err != nil {
			return err
		}
		w.side = s
	case s.timed && rng.IntN(2) == 0:
		s.floor += rng.Uint64N(3)
		return s.ks.DiscardBelow(s.floor)
	case rng.IntN(3) == 0 && !w.db.Engine.Spaces.Dropping():
		return w.dropAside(a)
	}
	return nil
}

// open opens the keyspace, or creates it.
func (s *sideSpace) open(d *inside.DB) (err error) {
	o := &stoat.KeyspaceOptions{ValueThreshold: scheduleApart}
	if s.timed {
		o.Timestamps = stoat.TimestampsChecked
	}
	if s.ks, err = d.Keyspace(sideName, o); err == nil && s.ks.DiscardedBelow() != s.floor {
		return fmt.Errorf("the discard point is %d, want %d", s.ks.DiscardedBelow(), s.floor)
	}
	return err
}

// dropAside drops the side keyspace. Its commit has a point in the middle.
func (w *scheduleWorld) dropAside(a *actor) error {
	s := w.side
	if err := w.beginCommit(a, &pendingCommit{model: w.m.Begin(w.m.Last(), true), deletes: s}); err != nil {
		return err
	}
	s.dropping, w.owed, w.deletion = true, false, 0
	err := w.db.DropKeyspace(sideName)
	if gone := a.gone(); gone != nil {
		return gone
	}
	p := a.pend
	w.endPending(a)
	if err != nil {
		return err
	}
	w.did.dropped++
	w.acknowledge(p.seq, true)
	w.side = nil
	return nil
}

// stepDropper does the step of the dropper. Only if a crash took a deletion, it may commit
// that again.
func (w *scheduleWorld) stepDropper(a *actor) error {
	if !w.db.Engine.Spaces.Dropping() {
		return nil
	}
	if w.owed {
		// With an older snapshot, the step ends after its commit. Otherwise it would wait
		// for a flush, and would not give the turn back meanwhile.
		slot, err := w.db.Engine.Store.Acquire()
		if err != nil {
			return err
		}
		defer w.db.Engine.Store.Release(slot)
		if err := w.beginCommit(a, &pendingCommit{model: w.m.Begin(w.m.Last(), true), again: true}); err != nil {
			return err
		}
		defer w.endPending(a)
	}
	_, err := w.db.Engine.Spaces.Step()
	if gone := a.gone(); gone != nil {
		return gone
	}
	if a.pend != nil && a.pend.seq != 0 {
		w.acknowledge(a.pend.seq, true)
	}
	if err == nil && !w.db.Engine.Spaces.Dropping() {
		w.did.forgotten++
	}
	return err
}

// leadersMax is how many commits there may be on their way. Another one would wait for one
// of them.
const leadersMax = 2

// beginCommit begins the commit of an actor, which stops until that need not wait. See
// isBlocked.
func (w *scheduleWorld) beginCommit(a *actor, p *pendingCommit) error {
	a.pend = p
	if w.leaders() < leadersMax {
		return nil
	}
	return a.stop(pointFull)
}

// leaders returns how many commits are on their way.
func (w *scheduleWorld) leaders() (n int) {
	for _, a := range w.actors {
		if a.at == work.PointApplied {
			n++
		}
	}
	return n
}

// endPending ends the commit of an actor.
func (w *scheduleWorld) endPending(a *actor) {
	a.pend = nil
	w.order = slices.DeleteFunc(w.order, func(o *actor) bool { return o == a })
}

// noteAside is noteApplied for what the commit did to the side keyspace.
func (w *scheduleWorld) noteAside(p *pendingCommit) {
	switch {
	case p.deletes != nil:
		p.deletes.deleted, w.deletion = p.seq, p.seq
	case p.again:
		w.owed, w.deletion = false, p.seq
	}
	if err := p.side.applied(p.seq); err != nil {
		w.fault = err
	}
}

// openSide goes on from what a new opening has of the side keyspace.
func (w *scheduleWorld) openSide(version uint64) error {
	infos, err := w.db.Keyspaces()
	if err != nil {
		return err
	}
	s := w.side
	there := slices.ContainsFunc(infos, func(i stoat.KeyspaceInfo) bool { return i.Name == sideName })
	if want := s != nil && !s.dropping; there != want {
		return fmt.Errorf("there is a side keyspace: %t, want %t", there, want)
	}
	if w.deletion > version {
		w.deletion = 0 // a crash took it, and another commit may get its number
	}
	w.owed = w.db.Engine.Spaces.Dropping() && w.deletion == 0
	if !there {
		w.side = nil
		return nil
	}
	s.writes = slices.DeleteFunc(s.writes, func(v sideWrite) bool { return v.seq > version })
	return s.open(w.db)
}

// copy returns a copy for another opening.
func (s *sideSpace) copy() *sideSpace {
	if s == nil {
		return nil
	}
	c := *s
	c.writes = slices.Clone(s.writes)
	return &c
}

// verifySide compares the side keyspace at all timestamps.
func (w *scheduleWorld) verifySide() error {
	s := w.side
	if s == nil || s.dropping {
		return nil
	}
	return w.db.View(func(tx stoat.Txn) error {
		t := &scheduleTxn{w: w, tx: tx, side: &aside{in: s, seq: tx.ReadVersion()}}
		for at := s.floor; at < s.floor+sideTimes; at++ {
			for _, key := range scheduleKeys {
				if err := t.getAside(key, at); err != nil {
					return err
				}
			}
			for _, reverse := range []bool{false, true} {
				if err := t.scanAside(at, reverse); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// forgetDropped lets the dropper come to its end, while all other actors rest.
func (w *scheduleWorld) forgetDropped() error {
	w.add("last dropper", func(a *actor) error {
		for range 10 {
			for !w.flushed() {
				if err := w.rotateAndFlush(); err != nil {
					return err
				}
			}
			if err := w.stepDropper(a); err != nil || !w.db.Engine.Spaces.Dropping() {
				return err
			}
		}
		return errors.New("a dropped keyspace is not forgotten although nothing uses it")
	})
	for did, err := true, error(nil); did; {
		if did, err = w.next(func(a *actor) bool { return a.name == "last dropper" }); err != nil {
			return err
		}
	}
	return nil
}

// castAside makes the actors of the side keyspace.
func (w *scheduleWorld) castAside(repeat func(name string, deed func(a *actor, rng *rand.Rand) error)) {
	repeat("owner", w.manageAside)
	repeat("dropper", func(a *actor, _ *rand.Rand) error { return w.stepDropper(a) })
	repeat("side reader", w.readAside)
}

// mayDrop is mayBegin for the actors whose locks the dropper takes, and for the dropper. It
// waits for a flush as a checkpoint does.
func (w *scheduleWorld) mayDrop(a *actor) bool {
	switch a.name {
	case "dropper":
		return w.flushed() && w.atRest("compactor") && w.atRest("collector")
	case "compactor", "collector":
		return w.atRest("dropper")
	}
	return true
}

// atRest reports whether an actor is between two deeds, or does not exist.
func (w *scheduleWorld) atRest(name string) bool {
	return !slices.ContainsFunc(w.actors, func(a *actor) bool {
		return a.name == name && a.at != pointIdle && a.at != pointEnd
	})
}
