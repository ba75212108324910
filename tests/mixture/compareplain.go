package mixture

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// comparePlain compares iterators with random options and moves, and reads of many keys.
func comparePlain(rng *rand.Rand, tx stoat.Txn, s *space, now uint64) error {
	keys := s.history.Keys()
	if len(keys) == 0 {
		return nil
	}
	near := func() string { return nearKey(rng, keys[rng.IntN(len(keys))]) }
	t := s.history.Begin(tx.ReadVersion(), false)
	t.NowMs = now
	for range 3 {
		o := iterOptions(rng, tx.ReadVersion(), near)
		if err := compareMoves(rng, tx, t, o, near); err != nil {
			return fmt.Errorf("iterator %+v: %w", o, err)
		}
	}
	return compareMany(rng, tx, t, near)
}

// nearKey returns a key, or one close to it. It may be empty.
func nearKey(rng *rand.Rand, key string) string {
	switch rng.IntN(4) {
	case 0:
		return key + "\x00"
	case 1:
		return key[:len(key)-1]
	}
	return key
}

// iterOptions draws options of an iterator.
func iterOptions(rng *rand.Rand, version uint64, near func() string) (o stoat.IterOptions) {
	if rng.IntN(3) == 0 {
		o.Lower = []byte(near())
	}
	if rng.IntN(3) == 0 {
		o.Upper = []byte(near())
	}
	if rng.IntN(4) == 0 {
		p := near()
		o.Prefix = []byte(p[:rng.IntN(len(p)+1)])
	}
	o.Reverse, o.KeysOnly, o.AllVersions = rng.IntN(2) == 0, rng.IntN(3) == 0, rng.IntN(3) == 0
	if rng.IntN(3) == 0 {
		o.Since = rng.Uint64N(version + 1)
	}
	return o
}

// compareMoves moves an iterator beside the one of the model. An iterator over all versions
// may show more than the model, as model.Iterator.Reach allows.
func compareMoves(rng *rand.Rand, tx stoat.Txn, t *model.Txn, o stoat.IterOptions, near func() string) error {
	it := tx.Iterator(o)
	defer it.Close()
	m := t.Iterator(model.IterOptions{
		Lower: string(o.Lower), Upper: string(o.Upper), Bounded: o.Upper != nil, Prefix: string(o.Prefix),
		Reverse: o.Reverse, AllVersions: o.AllVersions, KeysOnly: o.KeysOnly, Since: o.Since,
	})
	defer m.Close()
	moves := ""
	for range 30 {
		name, ok, want := move(rng, it, m, near)
		moves += " " + name
		got, err := itemAt(it, ok, o.KeysOnly)
		switch {
		case err != nil:
		case o.AllVersions:
			err = m.Reach(got, ok)
		case ok != want || ok && got != m.Item():
			err = fmt.Errorf("%v %v, want %v %v", ok, got, want, m.Item())
		}
		if err != nil {
			return fmt.Errorf("after%s: %w", moves, err)
		}
	}
	return it.Close()
}

// move makes the same random move with both iterators.
func move(rng *rand.Rand, it stoat.Iterator, m *model.Iterator, near func() string) (name string, ok, want bool) {
	switch n := rng.IntN(12); {
	case n == 0:
		return "First", it.First(), m.First()
	case n == 1:
		return "Last", it.Last(), m.Last()
	case n == 2:
		key := near()
		return fmt.Sprintf("Seek(%q)", key), it.Seek([]byte(key)), m.Seek(key)
	case n < 9:
		return "Next", it.Next(), m.Next()
	}
	return "Prev", it.Prev(), m.Prev()
}

// itemAt copies the item of an iterator, if it is at one.
func itemAt(it stoat.Iterator, ok, keysOnly bool) (model.Item, error) {
	switch {
	case !ok:
		return model.Item{}, it.Err()
	case keysOnly:
		return testkit.KeyOf(it.Item())
	}
	return testkit.ItemOf(it.Item())
}

// compareMany reads up to 20 keys at once.
func compareMany(rng *rand.Rand, tx stoat.Txn, t *model.Txn, near func() string) error {
	var keys [][]byte
	for range rng.IntN(20) {
		if key := near(); key != "" {
			keys = append(keys, []byte(key))
		}
	}
	values, err := tx.GetMany(keys, nil)
	if err != nil {
		return err
	}
	for i, key := range keys {
		want, found := t.Get(string(key))
		if (values[i] != nil) != found || found && !bytes.Equal(values[i], []byte(want.Value)) {
			return fmt.Errorf("GetMany: key %q is %.20q, want %.20q, found %v", key, values[i], want.Value, found)
		}
	}
	return nil
}

// ownReads compares what a transaction reads of its own writes in plain keyspaces.
func (r *run) ownReads(tx stoat.Txn, some []*space, writes []write) error {
	for _, s := range some {
		if s.kind != plain {
			continue
		}
		t := s.history.Begin(s.history.Last(), false)
		t.NowMs = r.now()
		for _, w := range writes {
			if w.space == s {
				w.apply(t, r.now())
			}
		}
		for _, reverse := range []bool{false, true} {
			if err := r.compareOwn(tx.In(s.ks), t, reverse); err != nil {
				return fmt.Errorf("%v, reverse %v: %w", s, reverse, err)
			}
		}
	}
	return nil
}

// compareOwn scans a keyspace, with reads of single keys in between.
func (r *run) compareOwn(tx stoat.Txn, t *model.Txn, reverse bool) error {
	it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
	defer it.Close()
	m := t.Iterator(model.IterOptions{Reverse: reverse})
	defer m.Close()
	for {
		ok, want := it.Next(), m.Next()
		got, err := itemAt(it, ok, false)
		if err != nil {
			return err
		}
		if ok != want || ok && got != m.Item() {
			return fmt.Errorf("%v %v, want %v %v", ok, got, want, m.Item())
		}
		if !ok {
			return nil
		}
		if r.rng.IntN(4) > 0 {
			continue
		}
		one, err := tx.GetItem([]byte(got.Key))
		if err != nil {
			return err
		}
		if again, err := testkit.ItemOf(one); err != nil || again != got {
			return fmt.Errorf("get: %v, error %v, want %v", again, err, got)
		}
	}
}
