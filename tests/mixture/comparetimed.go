package mixture

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat"
)

// A timedItem is a version with its key.
type timedItem struct {
	key string
	timedVersion
}

// compareTimed compares a timed keyspace at three timestamps, and all of its versions.
func compareTimed(rng *rand.Rand, tx stoat.Txn, s *space, now uint64) error {
	m := s.timedAt(tx.ReadVersion())
	keys := slices.Sorted(maps.Keys(m))
	for _, at := range []uint64{math.MaxUint64, s.discard + rng.Uint64N(40), s.discard} {
		var want []timedItem
		for _, key := range keys {
			v, found := latestAt(m[key], at, now)
			if err := compareTimedKey(tx.At(at), key, v, found); err != nil {
				return fmt.Errorf("key %q at %d: %w, of %v", key, at, err, m[key])
			}
			if found {
				want = append(want, timedItem{key, v})
			}
		}
		reverse := rng.IntN(2) == 0
		got, err := scanTimed(tx.At(at), stoat.IterOptions{Reverse: reverse})
		if err != nil {
			return err
		}
		if reverse {
			slices.Reverse(got)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("scan at %d, reverse %v: %v, want %v", at, reverse, got, want)
		}
	}
	return compareAllTimed(tx, s, m, now)
}

// latestAt returns the version that a read at a timestamp shows.
func latestAt(all []timedVersion, at, now uint64) (timedVersion, bool) {
	for _, v := range all {
		if v.at <= at {
			return v, v.live(now)
		}
	}
	return timedVersion{}, false
}

// compareTimedKey reads one key.
func compareTimedKey(tx stoat.TimedTxn, key string, want timedVersion, found bool) error {
	item, err := tx.GetItem([]byte(key))
	if !found && errors.Is(err, stoat.ErrNotFound) {
		return nil
	}
	if err != nil || !found {
		return fmt.Errorf("error %v, want %v, found %v", err, want, found)
	}
	if got, err := timedVersionOf(item); err != nil || got != want {
		return fmt.Errorf("%v, error %v, want %v", got, err, want)
	}
	return nil
}

// scanTimed reads everything that an iterator shows.
func scanTimed(tx stoat.TimedTxn, o stoat.IterOptions) (items []timedItem, err error) {
	it := tx.Iterator(o)
	for it.Next() {
		v, err := timedVersionOf(it.Item())
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		items = append(items, timedItem{string(it.Key()), v})
	}
	return items, errors.Join(it.Err(), it.Close())
}

// compareAllTimed compares a scan of all versions. It may lack those that compaction may
// remove.
func compareAllTimed(tx stoat.Txn, s *space, m map[string][]timedVersion, now uint64) error {
	got, err := scanTimed(tx.At(math.MaxUint64), stoat.IterOptions{AllVersions: true})
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		for _, v := range m[key] {
			want := timedItem{key, v}
			switch {
			case len(got) > 0 && got[0].same(want, now):
				got = got[1:]
			case !s.discardable(m[key], v, now):
				return fmt.Errorf("all versions lack %v of %q, before %v", v, key, got[:min(1, len(got))])
			}
		}
	}
	if len(got) > 0 {
		return fmt.Errorf("all versions have %v, which is not of the keyspace", got[0])
	}
	return nil
}

// same reports whether an item is the wanted one. An expired version may show as a deletion,
// because compaction removes its value and must still hide older versions.
func (i timedItem) same(want timedItem, now uint64) bool {
	hidden := i.deleted && !want.live(now) && i.key == want.key && i.at == want.at
	return i == want || hidden
}
