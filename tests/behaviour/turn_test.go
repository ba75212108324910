package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// turnKey returns a key; half of them need the escape of the default keyspace.
func turnKey(i int) []byte { return append([]byte{byte(0xfe + i/100%2)}, testkit.Key(i%100)...) }

// fillTurns writes keys in several layers: a merged table, runs, memtables, with old
// versions, operands, tombstones and range tombstones in each.
func fillTurns(t *testing.T, db *stoat.DB, spaces []*stoat.Keyspace) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for layer := range 6 {
		for range 4 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return writeTurns(tx, spaces, rng) }))
		}
		switch layer {
		case 0:
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		case 1, 2, 3: // full memtables, which become runs
			testkit.SetKeys(t, db, 500, 600, 1000, byte(layer))
		}
	}
}

// writeTurns writes to some keys.
func writeTurns(tx stoat.Txn, spaces []*stoat.Keyspace, rng *rand.Rand) error {
	var errs []error
	for _, ks := range spaces {
		in := tx.In(ks)
		from := rng.IntN(200)
		errs = append(errs, in.DeleteRange(turnKey(from), turnKey(min(from+rng.IntN(12), 199))))
		for range 40 {
			key := turnKey(rng.IntN(200))
			switch rng.IntN(8) {
			case 0:
				errs = append(errs, in.Delete(key))
			case 1, 2:
				errs = append(errs, in.Merge(key, []byte("+")))
			case 3:
				errs = append(errs, in.Set(key, testkit.LongValue(rng.IntN(1000)), stoat.UserMeta(3)))
			default:
				errs = append(errs, in.Set(key, fmt.Append(nil, rng.IntN(1000))))
			}
		}
	}
	return errors.Join(errs...)
}

// shownAt returns a text of what an iterator shows, or "" at an end.
func shownAt(it stoat.Iterator, ok bool) string {
	if !ok || !it.Valid() {
		return ""
	}
	item := it.Item()
	return fmt.Sprintf("%q %q %d %v %d", it.Key(), it.Value(), item.Version(), item.Deleted(), item.UserMeta())
}

// wander walks to and fro over a list that a loop over Next made.
func wander(it stoat.Iterator, rng *rand.Rand, steps int) error {
	var want []string
	for ok := it.First(); ok; ok = it.Next() {
		want = append(want, shownAt(it, ok))
	}
	at := len(want)
	for i := range steps {
		var ok bool
		if rng.IntN(2) == 0 {
			ok, at = it.Next(), min(at+1, len(want))
		} else {
			ok, at = it.Prev(), max(at-1, -1)
		}
		if i%40 == 20 {
			ok, at = it.Last(), len(want)-1
		}
		text := ""
		if at >= 0 && at < len(want) {
			text = want[at]
		}
		if got := shownAt(it, ok); got != text || ok != (text != "") || it.Err() != nil {
			return fmt.Errorf("step %d, place %d of %d: %s, %w; want %s", i, at, len(want), got, it.Err(), text)
		}
	}
	return nil
}

func TestTurn_EveryWayToAnEntryShowsTheSame(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
			o.NumVersions, o.MemtableSize, o.Keys = 4, 64<<10, testkit.KeysIf(encrypted)
			o.MergeFunction, o.MergeFunctions = merge.Append.Name(), []stoat.MergeFunction{merge.Append}
		})
		ks, err := db.Keyspace("other", &stoat.KeyspaceOptions{MergeFunction: merge.Append.Name()})
		testkit.Must(t, err)
		spaces := []*stoat.Keyspace{nil, ks}
		fillTurns(t, db, spaces)
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		rng := rand.New(rand.NewPCG(3, 4))
		testkit.Must(t, writeTurns(tx, spaces, rng))
		for i := range testkit.Raced(120, 32) {
			o := stoat.IterOptions{Reverse: i&1 != 0, AllVersions: i&2 != 0, KeysOnly: i&4 != 0}
			if i&8 != 0 {
				o.Since = tx.ReadVersion() / 2
			}
			if i&16 != 0 {
				o.Lower, o.Upper = turnKey(rng.IntN(100)), turnKey(rng.IntN(200))
			}
			it := tx.In(spaces[i%3/2]).Iterator(o)
			if err := wander(it, rng, 60); err != nil {
				t.Fatalf("%+v: %v", o, err)
			}
			testkit.Must(t, it.Close())
		}
		tx.Discard()
		testkit.Must(t, db.Close())
	}
}

// A move back from a key that was sought finds the key before it, whether the sought
// key is there, is absent, or is after all keys.
func TestTurn_PrevAfterSeekFindsTheKeyBefore(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("b"), nil), tx.Set([]byte("d"), nil), tx.Set([]byte("f"), nil))
	}))
	for _, c := range []struct {
		reverse            bool
		seek, found, after string
	}{
		{false, "a", "b", ""}, {false, "b", "b", ""}, {false, "c", "d", "b"}, {false, "d", "d", "b"}, {false, "g", "", "f"},
		{true, "g", "f", ""}, {true, "f", "f", ""}, {true, "e", "d", "f"}, {true, "d", "d", "f"}, {true, "a", "", "b"},
	} {
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{Reverse: c.reverse})
			it.Seek([]byte(c.seek))
			found := string(it.Key())
			if ok := it.Prev(); found != c.found || string(it.Key()) != c.after || ok != (c.after != "") {
				t.Errorf("%+v: Seek finds %q, Prev leads to %q", c, found, it.Key())
			}
			return it.Close()
		}))
	}
}

// A turn is no positioning: the iterator does not show what the transaction has written
// since then.
func TestTurn_ShowsTheWritesOfThePositioning(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 6, 10, 1)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	testkit.Must(t, tx.Delete(testkit.Key(1)))
	it := tx.Iterator(stoat.IterOptions{})
	it.Seek(testkit.Key(4))
	testkit.Must(t, errors.Join(tx.Delete(testkit.Key(3)), tx.DeleteRange(testkit.Key(0), testkit.Key(1)),
		tx.Set(testkit.Key(1), nil)))
	for _, want := range []int{3, 2, 0} {
		if it.Prev(); !bytes.Equal(it.Key(), testkit.Key(want)) {
			t.Errorf("back at %q, want key %d", it.Key(), want)
		}
	}
	it.Last()
	for _, want := range []int{4, 2, 1} {
		if it.Prev(); !bytes.Equal(it.Key(), testkit.Key(want)) {
			t.Errorf("after Last back at %q, want key %d", it.Key(), want)
		}
	}
}

// What an iterator passed over in either direction is read: a commit there is a conflict,
// and one elsewhere is none.
func TestTurn_ConflictsCoverBothDirections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		reverse bool
		move    func(it stoat.Iterator)
		lo, hi  int // the keys read, hi included
	}{
		{"on, then back beyond the start", false, func(it stoat.Iterator) {
			it.Seek(testkit.Key(20))
			it.Next()
			it.Prev()
			it.Prev()
		}, 18, 22},
		{"back, then on beyond the start", true, func(it stoat.Iterator) {
			it.Seek(testkit.Key(20))
			it.Next()
			it.Prev()
			it.Prev()
		}, 18, 22},
		{"on and half the way back", false, func(it stoat.Iterator) {
			it.Seek(testkit.Key(20))
			for range 4 {
				it.Next()
			}
			it.Prev()
		}, 20, 28},
		{"the last key", false, func(it stoat.Iterator) {
			it.Last()
			it.Prev()
		}, 36, 60},
		{"back from the end", false, func(it stoat.Iterator) {
			it.Seek(testkit.Key(37))
			it.Next()
			it.Prev()
		}, 37, 60},
		{"back from nothing", false, func(it stoat.Iterator) {
			it.Seek(testkit.Key(39))
			it.Prev()
		}, 38, 60},
	} {
		for changed := 0; changed <= 60; changed += testkit.Raced(1, 3) {
			db := testkit.OpenMem(t)
			for i := 0; i < 40; i += 2 {
				testkit.SetKeys(t, db, i, i+1, 10, 1)
			}
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			it := tx.Iterator(stoat.IterOptions{Reverse: c.reverse})
			c.move(it)
			testkit.Must(t, it.Err())
			testkit.SetKeys(t, db, changed, changed+1, 10, 2)
			testkit.Must(t, tx.Set([]byte("other"), nil))
			err := tx.Commit()
			if want := changed >= c.lo && changed <= c.hi; errors.Is(err, stoat.ErrConflict) != want || !want && err != nil {
				t.Errorf("%s: key %d changed, Commit returns %v, want a conflict %v", c.name, changed, err, want)
			}
			testkit.Must(t, db.Close())
		}
	}
}

func TestTurn_AClosedIteratorAndAnEmptyDatabaseShowNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{})
		if it.Prev() || it.Last() || it.Next() || it.Prev() || it.Valid() || it.Err() != nil {
			t.Errorf("an empty database shows %q, %v", it.Key(), it.Err())
		}
		testkit.Must(t, it.Close())
		if it.Prev() || it.Last() || !errors.Is(it.Err(), stoat.ErrTxnDone) {
			t.Errorf("a closed iterator shows %q, %v", it.Key(), it.Err())
		}
		return nil
	}))
	var none stoat.Iterator
	var noneTimed stoat.TimedIterator
	if none.Prev() || none.Last() || noneTimed.Prev() || noneTimed.Last() {
		t.Error("a zero iterator moves")
	}
}

func TestTurn_TimestampsGoBackwardToo(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	put(t, db, ks, "a 5 a5", "a 9 a9", "b 5 b5", "b 7", "c 3 c3", "d 9 d9")
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		at := tx.In(ks).At(8)
		got := ""
		for key, value := range at.Loop(stoat.IterOptions{Reverse: true}) {
			got += fmt.Sprintf("%s=%s ", key, value)
		}
		for key := range at.Loop(stoat.IterOptions{KeysOnly: true, Upper: []byte("c")}) {
			got += string(key)
		}
		it := at.Iterator(stoat.IterOptions{})
		for _, move := range []func() bool{it.Last, it.Prev, it.Next, it.Next, it.Prev} {
			got += fmt.Sprintf(" %v:%s", move(), it.Value())
		}
		if want := "c=c3 a=a5 a true:c3 true:a5 true:c3 false: true:c3"; got != want {
			t.Errorf("shown: %s, want %s", got, want)
		}
		return errors.Join(it.Close(), tx.Err())
	}))
}
