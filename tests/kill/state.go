package kill

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// A State is what a database holds after a commit.
type State struct {
	// home is the default keyspace, apart the keyspace apart. Both have all commits.
	home, apart *model.Map
	stamped     history
	below       uint64 // the discard point of the keyspace with timestamps
	// own are the keyspaces of the writers.
	own [writersMax]map[string]string
	// drops counts the drops of keyspaces that began, and silent the commits that no
	// writer made. A drop commits a deletion, and repeats it after a crash.
	drops, silent int
}

// NewState returns the state of an empty database.
func NewState() *State {
	return &State{home: model.NewMap(), apart: model.NewMap(), stamped: history{}}
}

// Last returns the number of the newest commit.
func (s *State) Last() uint64 { return s.home.Last() }

func (s *State) clone() *State {
	c := *s
	c.home, c.apart, c.stamped = s.home.Clone(), s.apart.Clone(), s.stamped.clone()
	for i, own := range s.own {
		c.own[i] = maps.Clone(own)
	}
	return &c
}

// commit adds a commit and returns its number.
func (s *State) commit(w Writes) uint64 {
	s.apart.Commit(w.apart)
	s.stamped.put(w.stamped)
	if w.drops {
		s.own[w.writer] = nil
	}
	for _, x := range w.own {
		if s.own[w.writer] == nil {
			s.own[w.writer] = make(map[string]string)
		}
		s.own[w.writer][x.Key] = x.Value
	}
	return s.home.Commit(w.home)
}

// silentTo adds commits that no writer made, up to a number.
func (s *State) silentTo(version uint64) error {
	for s.Last() < version {
		if s.silent++; s.silent > 2*s.drops {
			return fmt.Errorf("no writer can have made commit %d; %d keyspaces were dropped, %d commits are without a writer",
				s.Last()+1, s.drops, s.silent)
		}
		s.commit(Writes{})
	}
	return nil
}

// forgetTrailing forgets the newest commits that no writer made. The next opening may
// not know them, or see them again.
func (s *State) forgetTrailing() {
	last := s.Last()
	for last > 0 && len(s.home.Writes(last)) == 0 {
		last--
		s.silent--
	}
	s.home.Truncate(last)
	s.apart.Truncate(last)
}

// compare demands that tx shows s, which has all commits of tx.
func (s *State) compare(db *stoat.DB, tx stoat.Txn) error { return errors.Join(s.Compare(db, tx)...) }

// Compare returns how each part of what tx shows differs from s, which has all commits
// of tx. Compactions may have dropped versions that no snapshot needs. So of older
// versions it demands only that they are true.
func (s *State) Compare(db *stoat.DB, tx stoat.Txn) (errs []error) {
	ks, err := spacesOf(db)
	if err != nil {
		return []error{err}
	}
	if got := ks.stamped.DiscardedBelow(); got != s.below {
		return []error{fmt.Errorf("the discard point is %d, want %d", got, s.below)}
	}
	now := wallClockMs()
	errs = append(errs, checkMirror(db, tx), compareLasting(tx, s.home, now))
	if err := compareLasting(tx.In(ks.apart), s.apart, now); err != nil {
		errs = append(errs, fmt.Errorf("keyspace apart: %w", err))
	}
	for writer, want := range s.own {
		got, err := readOwn(db, tx, uint64(writer))
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("keyspace of writer %d: %d keys, want %d; or other values", writer, len(got), len(want))
		}
		errs = append(errs, err)
	}
	return append(errs, s.stamped.compare(tx.In(ks.stamped), s.below))
}

// CommitRandom commits a transaction to a database in state s, and returns the state
// after it.
func (s *State) CommitRandom(db *stoat.DB, rng *rand.Rand) (*State, error) {
	w := recoveredWrites(rng, s.below/timesPerLife) // no timestamp is below the discard point
	if _, err := CommitWrites(db, w, stoat.Synced); err != nil {
		return nil, err
	}
	s = s.clone()
	s.commit(w)
	return s, nil
}

// DiscardSome raises the discard point of the keyspace with timestamps. Versions of
// earlier commits lie on both sides of it.
func (s *State) DiscardSome(db *stoat.DB) error {
	ks, err := spacesOf(db)
	if err != nil {
		return err
	}
	s.below = 2*timesPerLife + timesPerLife/2
	return ks.stamped.DiscardBelow(s.below)
}

// readOwn returns what the keyspace of a writer holds, nil if it does not exist.
func readOwn(db *stoat.DB, tx stoat.Txn, writer uint64) (map[string]string, error) {
	exists, err := existsOwn(db, writer)
	if err != nil || !exists {
		return nil, err
	}
	ks, err := db.Keyspace(ownName(writer), nil)
	if err != nil {
		return nil, err
	}
	got := make(map[string]string)
	in := tx.In(ks)
	for key, value := range in.All() {
		got[string(key)] = string(value)
	}
	return got, in.Err()
}
