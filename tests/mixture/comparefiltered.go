package mixture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// compareFiltered demands that each key of a filtered keyspace is one of its candidates, and
// that all ways to read agree. It returns what they show.
func compareFiltered(rng *rand.Rand, tx stoat.Txn, s *space, now uint64) (map[string]candidate, error) {
	items, err := testkit.ScanAll(tx, stoat.IterOptions{Reverse: rng.IntN(2) == 0})
	if err != nil {
		return nil, err
	}
	seen := map[string]candidate{}
	for _, it := range items {
		seen[it.Key] = candidateOf(it)
		if s.candidates[it.Key] == nil {
			return nil, fmt.Errorf("key %q was never written", it.Key)
		}
	}
	for key := range s.candidates {
		got := seen[key]
		if err := comparePoint(tx, key, got); err != nil {
			return nil, err
		}
		all := s.candidatesAt(key, tx.ReadVersion())
		may := func(c candidate) bool { return c.live(now) && c == got || !c.live(now) && !got.present }
		if !slices.ContainsFunc(all, may) {
			return nil, fmt.Errorf("key %q is %.100q, want one of %.300q", key, fmt.Sprint(got), fmt.Sprint(all))
		}
	}
	return seen, compareNewest(tx, seen)
}

func candidateOf(it model.Item) candidate {
	return candidate{it.Value, true, it.ExpiresAt, it.User}
}

// comparePoint demands that a read of one key shows what a scan showed.
func comparePoint(tx stoat.Txn, key string, want candidate) error {
	item, err := tx.GetItem([]byte(key))
	var got candidate
	switch {
	case errors.Is(err, stoat.ErrNotFound):
	case err != nil:
		return err
	default:
		it, err := testkit.ItemOf(item)
		if err != nil {
			return err
		}
		got = candidateOf(it)
	}
	if got != want {
		return fmt.Errorf("key %q: get %.100q, scan %.100q", key, fmt.Sprint(got), fmt.Sprint(want))
	}
	return nil
}

// compareNewest demands that a scan of all versions begins, for each key, with the one that a
// scan of keys shows.
func compareNewest(tx stoat.Txn, seen map[string]candidate) error {
	all, err := testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true})
	if err != nil {
		return err
	}
	shown := map[string]bool{}
	for _, it := range all {
		if want, found := seen[it.Key]; found && !shown[it.Key] && (it.Deleted || candidateOf(it) != want) {
			return fmt.Errorf("key %q: all versions begin with %v, a scan shows %.40q", it.Key, it, want.value)
		}
		shown[it.Key] = true
	}
	for key := range seen {
		if !shown[key] {
			return fmt.Errorf("key %q: a scan of all versions does not show it", key)
		}
	}
	return nil
}
