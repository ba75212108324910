package mixture

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// verify compares all of the database with the model.
func (r *run) verify() error { return r.compareWith(r.db, r.spaces, r.last) }

// compareWith compares a database with the models of keyspaces. The database must be at a
// version from floor to the last one, and must have exactly the keyspaces of that version.
func (r *run) compareWith(db *stoat.DB, spaces []*space, floor uint64) error {
	infos, err := db.Keyspaces()
	if err != nil {
		return err
	}
	return db.View(func(tx stoat.Txn) error {
		version := tx.ReadVersion()
		if version < floor || version > r.last {
			return fmt.Errorf("the database is at %d, want %d to %d", version, floor, r.last)
		}
		missing := map[uint32]*space{}
		for _, s := range spaces {
			if s.dropped == 0 || s.dropped > version {
				missing[s.id] = s
			}
		}
		for _, info := range infos {
			s := missing[info.ID]
			if s == nil || s.name != info.Name {
				return fmt.Errorf("keyspace %q with ID %d must not be there at %d", info.Name, info.ID, version)
			}
			delete(missing, info.ID)
			if err := r.compareOne(db, tx, s, info); err != nil {
				return fmt.Errorf("%v at %d: %w", s, version, err)
			}
		}
		for _, s := range missing {
			return fmt.Errorf("%v, dropped at %d, is missing at %d", s, s.dropped, version)
		}
		return nil
	})
}

// compareOne compares a keyspace of a database with its model.
func (r *run) compareOne(db *stoat.DB, tx stoat.Txn, s *space, info stoat.KeyspaceInfo) error {
	if settingsOf(info) != s.settings || (info.Timestamps != 0) != (s.kind == timed) {
		return fmt.Errorf("settings are %+v, timestamps %v, want %+v", info.Settings, info.Timestamps, s.settings)
	}
	if info.Name != "" {
		ks, err := db.Keyspace(info.Name, nil)
		if err != nil {
			return err
		}
		if got := ks.DiscardedBelow(); s.kind == timed && got != s.discard {
			return fmt.Errorf("the discard point is %d, want %d", got, s.discard)
		}
		tx = tx.In(ks)
	}
	return compareSpace(r.rng, tx, s, r.now())
}

// compareSpace compares what a transaction reads in a keyspace with the model.
func compareSpace(rng *rand.Rand, tx stoat.Txn, s *space, now uint64) error {
	switch s.kind {
	case plain:
		if err := testkit.Compare(tx, s.history, now); err != nil {
			return err
		}
		return comparePlain(rng, tx, s, now)
	case filtered:
		_, err := compareFiltered(rng, tx, s, now)
		return err
	}
	return compareTimed(rng, tx, s, now)
}
