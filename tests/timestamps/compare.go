package timestamps

import (
	stdcontext "context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stoatdb/stoat"
)

func context() stdcontext.Context { return stdcontext.Background() }

// compare compares some reads of a keyspace with its model.
func (r *run) compare(tx stoat.Txn, i int, m modelSpace) error {
	for range 4 {
		if err := r.compareKey(tx, i, m, r.key(), r.time(r.floors[i])); err != nil {
			return err
		}
	}
	return r.compareScan(tx, i, m)
}

// compareKey compares all ways to read a key at a timestamp.
func (r *run) compareKey(tx stoat.Txn, i int, m modelSpace, key string, at uint64) error {
	r.work.reads++
	want, found := m.find(key, at, r.clock.Seen())
	t := tx.In(r.spaces[i]).At(at)
	item, err := t.GetItem([]byte(key))
	if !found {
		_, e := t.Get([]byte(key))
		if has, e2 := t.Has([]byte(key)); !errors.Is(err, stoat.ErrNotFound) || e != stoat.ErrNotFound || has || e2 != nil {
			return fmt.Errorf("%q at %d in %s: GetItem returns %s, %w; Get %w; Has %v, %w; want nothing of %s",
				key, at, r.names[i], text(item), err, e, has, e2, brief(m[key]))
		}
		return nil
	}
	r.work.found++
	if err == nil {
		err = same(item, want)
	}
	if err != nil {
		return fmt.Errorf("%q at %d in %s: %w; want %d of %s", key, at, r.names[i], err, want.at, brief(m[key]))
	}
	value, err := t.GetCopy([]byte(key), []byte("+"))
	if has, e := t.Has([]byte(key)); err != nil || string(value) != "+"+want.value || !has || e != nil {
		return fmt.Errorf("%q at %d: GetCopy returns %.20q, %w; Has %v, %w", key, at, value, err, has, e)
	}
	return nil
}

// same compares an item with a version.
func same(item stoat.Item, want version) error {
	value, err := item.ValueCopy(nil)
	if err != nil {
		return err
	}
	expires := uint64(0)
	if at := item.ExpiresAt(); !at.IsZero() {
		expires = uint64(at.UnixMilli())
	}
	if string(item.Key()) != want.key || item.Timestamp() != want.at || string(value) != want.value ||
		item.Deleted() != want.deleted || expires != want.expires || item.UserMeta() != want.user {
		return fmt.Errorf("the item is %s", text(item))
	}
	return nil
}

func text(item stoat.Item) string {
	value, err := item.ValueCopy(nil)
	return fmt.Sprintf("%q at %d: %.20q, deleted %v, expires %v, meta %d, error %v", item.Key(), item.Timestamp(), value,
		item.Deleted(), item.ExpiresAt().Format(time.TimeOnly), item.UserMeta(), err)
}

func brief(all []version) (s string) {
	for _, v := range all {
		s += fmt.Sprintf("%d:%.10q deleted %v expires %d, ", v.at, v.value, v.deleted, v.expires)
	}
	return s
}

// compareScan compares a random scan.
func (r *run) compareScan(tx stoat.Txn, i int, m modelSpace) error {
	q := query{at: r.time(r.floors[i]), reverse: r.rng.IntN(2) == 0, all: r.rng.IntN(4) == 0}
	o := stoat.IterOptions{Reverse: q.reverse, AllVersions: q.all, KeysOnly: r.rng.IntN(5) == 0}
	if r.rng.IntN(4) == 0 {
		q.lo = r.key()
		o.Lower = []byte(q.lo)
	}
	if r.rng.IntN(4) == 0 {
		q.hi = r.key()
		o.Upper = []byte(q.hi)
	}
	if r.rng.IntN(4) == 0 {
		q.prefix = r.key()[:1]
		o.Prefix = []byte(q.prefix)
	}
	whole := q
	it := tx.In(r.spaces[i]).At(q.at).Iterator(o)
	defer func() { _ = it.Close() }() // Err has the error
	from := r.rng.IntN(3) == 0
	ok := false
	if from {
		key := r.key()
		ok = it.Seek([]byte(key))
		if q.reverse && (q.hi == "" || key+"\x00" < q.hi) {
			q.hi = key + "\x00"
		} else if !q.reverse && key > q.lo {
			q.lo = key
		}
	} else {
		ok = it.First()
	}
	want := m.scan(q, r.clock.Seen())
	n := 0
	for ; ok; ok = it.Next() {
		item := it.Item()
		for q.all && n < len(want) && (string(item.Key()) != want[n].key || item.Timestamp() != want[n].at) &&
			r.mayBeGone(i, m, want[n]) {
			r.work.dropped++
			n++
		}
		if n == len(want) {
			return fmt.Errorf("scan %+v of %s shows %s after %d versions", q, r.names[i], text(item), n)
		}
		if o.KeysOnly {
			if string(item.Key()) != want[n].key || item.Timestamp() != want[n].at {
				return fmt.Errorf("scan %+v shows key %q at %d, want %+v", q, item.Key(), item.Timestamp(), want[n])
			}
			if value := it.Value(); value != nil {
				return fmt.Errorf("scan %+v of keys only shows the value %.20q", q, value)
			}
		} else if err := same(item, want[n]); err != nil && !(q.all && want[n].expires != 0 && item.Deleted()) {
			return fmt.Errorf("scan %+v of %s, version %d: %w; want %s", q, r.names[i], n, err, brief(want[n:n+1]))
		} else if value := it.Value(); !item.Deleted() && string(value) != want[n].value || string(it.Key()) != want[n].key {
			return fmt.Errorf("scan %+v: %q %.20q, want %+v", q, it.Key(), value, want[n])
		}
		n++
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("scan %+v: %w", q, err)
	}
	for q.all && n < len(want) && r.mayBeGone(i, m, want[n]) {
		r.work.dropped++
		n++
	}
	if n < len(want) {
		return fmt.Errorf("scan %+v of %s ends after %d versions, want %s", q, r.names[i], n, brief(want[n:]))
	}
	all := m.scan(whole, r.clock.Seen())
	if q.all && slices.ContainsFunc(all, func(v version) bool { return r.mayBeGone(i, m, v) }) {
		return nil
	}
	if err := r.wander(it, all); err != nil {
		return fmt.Errorf("scan %+v of %s, %s: %w", whole, r.names[i], brief(all), err)
	}
	return nil
}

// wander moves an iterator over the versions want to and fro, also past its ends.
func (r *run) wander(it stoat.TimedIterator, want []version) error {
	ok, at, moves := it.Last(), len(want)-1, "Last"
	for range r.rng.IntN(16) {
		inside := at >= 0 && at < len(want)
		if ok != inside || ok != it.Valid() || it.Err() != nil {
			return fmt.Errorf("after %s: %v, %w; want %v", moves, ok, it.Err(), inside)
		}
		if ok && (string(it.Key()) != want[at].key || it.Item().Timestamp() != want[at].at) {
			return fmt.Errorf("after %s: %q at %d, want %q at %d", moves, it.Key(), it.Item().Timestamp(), want[at].key, want[at].at)
		}
		switch r.rng.IntN(8) {
		case 0:
			ok, at, moves = it.First(), 0, "First"
		case 1, 2, 3:
			ok, at = it.Next(), min(at+1, len(want))
			moves += ", Next"
		default:
			ok, at = it.Prev(), max(at-1, -1)
			moves += ", Prev"
		}
	}
	return nil
}

// mayBeGone reports whether a compaction may have dropped a version.
func (r *run) mayBeGone(i int, m modelSpace, v version) bool {
	return m.discardable(v, r.floors[i], r.clock.Seen())
}
