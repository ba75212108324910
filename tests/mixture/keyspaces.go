package mixture

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// names are the names of the keyspaces that come and go.
var names = []string{"a", "b", "c, " + testkit.Sentinel, "d"}

// define creates a keyspace, or changes the settings of one.
func (r *run) define() error {
	name := names[r.rng.IntN(len(names))]
	s := r.named(name)
	o := r.keyspaceOptions()
	created := s == nil
	if created {
		s = newSpace(name, kind(r.rng.IntN(int(kinds))), r.last)
	}
	switch {
	case s.kind == filtered && created:
		o.MergeFunction, o.Filter = tail.Name(), prefixFilter{}.Name()
	case s.kind == filtered:
		o.Filter = []string{"", "none", prefixFilter{}.Name()}[r.rng.IntN(3)]
	case s.kind == plain && created:
		o.MergeFunction = tail.Name()
	case s.kind == timed && created:
		o.Timestamps = stoat.TimestampsChecked
	}
	r.note("  %v, created %v: %+v", s, created, *o)
	ks, err := r.db.Keyspace(name, o)
	if err != nil {
		if r.trouble != nil {
			r.trouble.defined = &definition{s, s.settings.with(o), created}
		}
		return r.excuse(err, nil)
	}
	s.ks = ks
	if !created {
		r.change(s, s.settings.with(o))
		return nil
	}
	if s.id, err = r.idOf(name); err != nil {
		return err
	}
	r.add(s, s.settings.with(o))
	return nil
}

// keyspaceOptions draws options that any keyspace may have.
func (r *run) keyspaceOptions() *stoat.KeyspaceOptions {
	o := &stoat.KeyspaceOptions{NumVersions: r.rng.IntN(4)}
	if r.rng.IntN(2) == 0 {
		o.ValueThreshold = 64 + r.rng.Int64N(500)
		o.LargeValueThreshold = o.ValueThreshold + r.rng.Int64N(4000)
	}
	if r.rng.IntN(2) == 0 {
		o.Compression = testkit.Compressions[r.rng.IntN(3)]
	}
	switch r.rng.IntN(4) {
	case 0:
		o.DefaultTTL = time.Duration(1+r.rng.IntN(4000)) * time.Millisecond
	case 1:
		o.DefaultTTL = -1
	}
	return o
}

// drop drops a keyspace. The drop makes all earlier commits durable.
func (r *run) drop() error {
	s := r.named(names[r.rng.IntN(len(names))])
	if s == nil {
		return nil
	}
	r.note("  %v as %d", s, r.last+1)
	err := r.db.DropKeyspace(s.name)
	if err != nil && r.trouble != nil {
		r.trouble.dropping = s
	}
	return r.committed(err, 0, true, func() error { return r.dropped(s) })
}

// dropped applies the drop of a keyspace as the next commit.
func (r *run) dropped(s *space) error {
	err := r.commit(nil)
	s.dropped = r.last
	return err
}

// discard raises the discard point of a timed keyspace, or leaves it where it is. The call
// makes all earlier commits durable.
func (r *run) discard() error {
	var some []*space
	for _, s := range r.current() {
		if s.kind == timed {
			some = append(some, s)
		}
	}
	if len(some) == 0 {
		return nil
	}
	s := some[r.rng.IntN(len(some))]
	to := s.discard + r.rng.Uint64N(12)
	r.note("  below %d of %v", to, s)
	err := s.ks.DiscardBelow(to)
	if err == nil {
		s.discard, r.durable = to, r.last
		return nil
	}
	switch got := s.ks.DiscardedBelow(); {
	case errors.Is(err, stoat.ErrFailed) && r.trouble != nil:
		r.trouble.raised = &raise{s, to}
	case got != s.discard && got != to:
		return fmt.Errorf("the discard point is %d, want %d or %d", got, s.discard, to)
	default:
		s.discard = got
	}
	return r.excuse(err, nil)
}

// handles gets the handles of all keyspaces from an opened database.
func (r *run) handles() error {
	for _, s := range r.current() {
		if s.name == "" {
			continue
		}
		ks, err := r.db.Keyspace(s.name, nil)
		if err != nil {
			return err
		}
		s.ks = ks
	}
	return nil
}
