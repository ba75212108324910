package kill

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A version is what a key has from a timestamp on.
type version struct {
	key     string
	at      uint64
	value   string
	deleted bool
	expires uint64 // testkit.Past, testkit.Future, or 0 for never
}

// timesPerLife is how far the timestamps of one life lie behind those of the life
// before. They overlap with those of the next lives.
const timesPerLife = 1000

// stampedKeys are the keys with versions. Zero bytes take part in their encoding.
var stampedKeys = []string{"\x00", "a", "a\x00", "a\x00\x01", "a\xff", "b", "key " + testkit.Sentinel, "\xff\x00"}

// randomVersion draws a version of a life.
func randomVersion(rng *rand.Rand, life uint64) version {
	v := version{key: stampedKeys[rng.IntN(len(stampedKeys))], at: life*timesPerLife + rng.Uint64N(3*timesPerLife)}
	if v.deleted = rng.IntN(5) == 0; v.deleted {
		return v
	}
	v.value = v.prefix() + testkit.RandomValue(rng, []int{10, 100, 6000}[rng.IntN(3)])
	v.expires = []uint64{0, 0, 0, 0, testkit.Past, testkit.Future}[rng.IntN(6)]
	return v
}

// prefix is what the value of the version begins with.
func (v version) prefix() string { return fmt.Sprintf("%q at %d: ", v.key, v.at) }

// live reports whether the version has a value, at the time of any run.
func (v version) live() bool { return !v.deleted && v.expires != testkit.Past }

// putVersions writes versions.
func putVersions(tx stoat.Txn, versions []version) error {
	for _, v := range versions {
		var err error
		switch t := tx.At(v.at); {
		case v.deleted:
			err = t.Delete([]byte(v.key))
		case v.expires != 0:
			err = t.Set([]byte(v.key), []byte(v.value), expiry(v.expires))
		default:
			err = t.Set([]byte(v.key), []byte(v.value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A history has all versions of each key, the latest first.
type history map[string][]version

func (h history) clone() history {
	c := maps.Clone(h)
	for key, all := range c {
		c[key] = slices.Clone(all)
	}
	return c
}

// put adds versions. Each replaces an older one at the same timestamp.
func (h history) put(versions []version) {
	for _, v := range versions {
		all := h[v.key]
		i := slices.IndexFunc(all, func(o version) bool { return o.at <= v.at })
		switch {
		case i < 0:
			h[v.key] = append(all, v)
		case all[i].at == v.at:
			all[i] = v
		default:
			h[v.key] = slices.Insert(all, i, v)
		}
	}
}

// at returns the versions that show at a timestamp, in the order of their keys.
func (h history) at(at uint64) (shown []version) {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[key] {
			if v.at <= at {
				if v.live() {
					shown = append(shown, v)
				}
				break
			}
		}
	}
	return shown
}

// compare compares what tx shows with h, from the discard point below on.
func (h history) compare(tx stoat.Txn, below uint64) error {
	moments := []uint64{below, math.MaxUint64}
	for _, key := range stampedKeys {
		if all := h[key]; len(all) > 0 {
			moments = append(moments, max(below, all[len(all)/2].at))
		}
	}
	for _, at := range moments {
		for _, reverse := range []bool{false, true} {
			if err := h.compareScan(tx.At(at), reverse); err != nil {
				return fmt.Errorf("timestamps at %d, reverse %v: %w", at, reverse, err)
			}
		}
		if err := h.comparePoints(tx.At(at)); err != nil {
			return fmt.Errorf("timestamps at %d: %w", at, err)
		}
	}
	return h.compareAll(tx.At(math.MaxUint64), below)
}

func (h history) compareScan(t stoat.TimedTxn, reverse bool) error {
	want := h.at(t.Timestamp())
	if reverse {
		slices.Reverse(want)
	}
	it := t.Iterator(stoat.IterOptions{Reverse: reverse})
	defer it.Close()
	for it.Next() {
		if len(want) == 0 {
			return fmt.Errorf("%q comes after the last", it.Key())
		}
		if err := same(it.Item(), want[0]); err != nil {
			return err
		}
		want = want[1:]
	}
	if it.Err() == nil && len(want) > 0 {
		return fmt.Errorf("%s is missing", want[0].prefix())
	}
	return it.Err()
}

// same compares an item with a version.
func same(item stoat.Item, want version) error {
	value, err := item.Value()
	if err != nil {
		return err
	}
	if string(item.Key()) != want.key || item.Timestamp() != want.at || string(value) != want.value || item.Deleted() != want.deleted {
		return fmt.Errorf("got %q at %d, deleted %v, %.60q; want %s, deleted %v, %.60q",
			item.Key(), item.Timestamp(), item.Deleted(), value, want.prefix(), want.deleted, want.value)
	}
	return nil
}

func (h history) comparePoints(t stoat.TimedTxn) error {
	want := h.at(t.Timestamp())
	for _, key := range slices.Sorted(slices.Values(stampedKeys)) {
		item, err := t.GetItem([]byte(key))
		found := len(want) > 0 && want[0].key == key
		switch {
		case !found && errors.Is(err, stoat.ErrNotFound):
			continue
		case err == nil && found:
			err = same(item, want[0])
		case err == nil:
			err = fmt.Errorf("it is at %d", item.Timestamp())
		}
		if err != nil {
			return fmt.Errorf("get %q: %w", key, err)
		}
		want = want[1:]
	}
	return nil
}

// compareAll compares all versions. Those that nothing shows from the discard point on
// may be gone.
func (h history) compareAll(t stoat.TimedTxn, below uint64) error {
	it := t.Iterator(stoat.IterOptions{AllVersions: true})
	defer it.Close()
	more := it.Next()
	for _, key := range slices.Sorted(maps.Keys(h)) {
		needed := true // by a reader at the discard point
		for _, v := range h[key] {
			gone := v.at <= below && !(needed && v.live())
			needed = needed && v.at > below
			if !more || string(it.Key()) != v.key || it.Item().Timestamp() != v.at {
				if gone {
					continue
				}
				return errors.Join(it.Err(), fmt.Errorf("of all versions, %s is missing", v.prefix()))
			}
			if err := same(it.Item(), v); err != nil && (v.expires != testkit.Past || !it.Item().Deleted()) {
				return fmt.Errorf("of all versions: %w", err)
			}
			more = it.Next()
		}
	}
	if more {
		return fmt.Errorf("of all versions, there is %q at %d", it.Key(), it.Item().Timestamp())
	}
	return it.Err()
}

// checkStamped demands that each value that tx shows belongs to its key and timestamp.
func checkStamped(tx stoat.Txn) error {
	it := tx.At(math.MaxUint64).Iterator(stoat.IterOptions{})
	defer it.Close()
	for it.Next() {
		v := version{key: string(it.Key()), at: it.Item().Timestamp()}
		if value := it.Value(); it.Err() == nil && !strings.HasPrefix(string(value), v.prefix()) {
			return fmt.Errorf("%s has the value %.60q", v.prefix(), value)
		}
	}
	return it.Err()
}
