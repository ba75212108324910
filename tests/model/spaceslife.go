package model

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A SpacesState is what the keyspaces of a database hold, by name. The default
// keyspace is "".
type SpacesState map[string]map[string]string

// signedName is the keyspace with SignFilter.
const signedName = "signed"

// Equal reports whether two databases hold the same. In the keyspace with a filter, each
// value may be as the filter makes it.
func (s SpacesState) Equal(other SpacesState) bool {
	s, other = s.screened(), other.screened()
	return maps.EqualFunc(s, other, maps.Equal[map[string]string])
}

// screened returns what s shows after the filter has seen all values.
func (s SpacesState) screened() SpacesState {
	keys, exists := s[signedName]
	if !exists {
		return s
	}
	s = maps.Clone(s)
	s[signedName] = screened(keys)
	return s
}

// clone returns an independent copy.
func (s SpacesState) clone() SpacesState {
	c := make(SpacesState, len(s))
	for name, keys := range s {
		c[name] = maps.Clone(keys)
	}
	return c
}

// Step draws an operation on a database in state s. It creates a keyspace, drops one,
// or writes to all in one transaction. It returns the state after the operation.
func (s SpacesState) Step(rng *rand.Rand) (next SpacesState, op func(db *stoat.DB) error) {
	next = s.clone()
	name := []string{"a", "b", "c, " + testkit.Sentinel, signedName}[rng.IntN(4)]
	_, exists := next[name]
	switch {
	case !exists:
		next[name] = map[string]string{}
		var o stoat.KeyspaceOptions
		if name == signedName {
			o.Filter = SignFilter{}.Name()
		}
		return next, func(db *stoat.DB) error { _, err := db.Keyspace(name, &o); return err }
	case rng.IntN(8) == 0:
		return next, func(db *stoat.DB) error { return db.Compact(context.Background(), stoat.CompactOptions{}) }
	case rng.IntN(5) == 0:
		delete(next, name)
		return next, func(db *stoat.DB) error { return db.DropKeyspace(name) }
	}
	value := testkit.RandomValue(rng, 3000)
	for name := range next {
		for range 5 {
			key := fmt.Sprint(rng.IntN(30))
			next[name][key] = value
			if name == signedName {
				next[name][key] = []string{"drop ", "edit ", "keep "}[rng.IntN(3)] + value
			}
		}
	}
	return next, func(db *stoat.DB) error { return db.Update(func(tx stoat.Txn) error { return next.write(db, tx) }) }
}

// write writes all of s.
func (s SpacesState) write(db *stoat.DB, tx stoat.Txn) error {
	for name, keys := range s {
		in, err := spaceOf(db, tx, name)
		if err != nil {
			return err
		}
		for key, value := range keys {
			if err := in.Set([]byte(key), []byte(value)); err != nil {
				return err
			}
		}
	}
	return nil
}

// spaceOf returns tx in the keyspace with a name.
func spaceOf(db *stoat.DB, tx stoat.Txn, name string) (stoat.Txn, error) {
	if name == "" {
		return tx, nil
	}
	ks, err := db.Keyspace(name, nil)
	return tx.In(ks), err
}

// ReadSpaces reads all keyspaces.
func ReadSpaces(db *stoat.DB) (SpacesState, error) {
	all, err := db.Keyspaces()
	if err != nil {
		return nil, err
	}
	s := SpacesState{}
	err = db.View(func(tx stoat.Txn) error {
		for _, k := range all {
			in, err := spaceOf(db, tx, k.Name)
			if err != nil {
				return err
			}
			s[k.Name] = map[string]string{}
			for key, value := range in.All() {
				s[k.Name][string(key)] = string(value)
			}
			if err := in.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	return s, err
}
