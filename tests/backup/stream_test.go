package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// streamed returns the items of a stream as lines, in the order in which they came.
func streamed(db *stoat.DB, o stoat.StreamOptions) (d dump, version uint64, err error) {
	version, err = db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
		for i, item := range b.Items {
			if i > 0 && !o.AllVersions && !o.Deletions && bytes.Compare(b.Items[i-1].Key, item.Key) >= 0 {
				return fmt.Errorf("%q comes after %q in a batch", item.Key, b.Items[i-1].Key)
			}
			d = append(d, nameOf(b.Keyspace)+line(item.Key, item.Value, item.Version, item.Timestamp, item.ExpiresAt.UnixMilli(), item.UserMeta, item.Deleted))
		}
		return nil
	})
	return d, version, err
}

func nameOf(ks *stoat.Keyspace) string {
	if ks == nil {
		return ""
	}
	return ks.Name() + " "
}

// iterated returns what iterators show of the same.
func iterated(db *stoat.DB, o stoat.StreamOptions) (d dump, err error) {
	spaces := []*stoat.Keyspace{o.Keyspace}
	if o.AllKeyspaces {
		infos, err := db.Keyspaces()
		if err != nil {
			return nil, err
		}
		for _, info := range infos[1:] {
			ks, err := db.Keyspace(info.Name, nil)
			if err != nil {
				return nil, err
			}
			spaces = append(spaces, ks)
		}
	}
	err = db.View(func(tx stoat.Txn) error {
		for _, ks := range spaces {
			it := cursor(tx.In(ks).Iterator(o.IterOptions))
			if ks != nil && ks.Name() == "timed" {
				at := o.Timestamp
				if at == 0 {
					at = math.MaxUint64
				}
				of := o.IterOptions
				if !of.AllVersions {
					of.Since = 0
				}
				it = tx.In(ks).At(at).Iterator(of)
			}
			for it.Next() {
				item := it.Item()
				if item.Version() <= o.Since {
					continue
				}
				value, err := item.Value()
				if err != nil {
					return err
				}
				if o.Choose == nil || o.Choose(item.Key()) {
					d = append(d, nameOf(ks)+line(item.Key(), value, item.Version(), item.Timestamp(), item.ExpiresAt().UnixMilli(), item.UserMeta(), item.Deleted()))
				}
			}
			if err := it.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	return d, err
}

// randomStream draws options of a stream.
func randomStream(rng *rand.Rand, l *life) (o stoat.StreamOptions, err error) {
	o.AllKeyspaces, o.Ordered, o.Workers = rng.IntN(2) == 0, rng.IntN(2) == 0, rng.IntN(5)
	if !o.AllKeyspaces && rng.IntN(2) == 0 {
		if o.Keyspace, err = l.keyspace(keyspaces[rng.IntN(3)]); err != nil {
			return o, err
		}
	}
	if rng.IntN(2) == 0 {
		o.Lower = l.key()
	}
	if rng.IntN(2) == 0 {
		o.Upper = l.key()
	}
	if rng.IntN(8) == 0 {
		o.Upper = []byte{} // no key is below it
	}
	if rng.IntN(3) == 0 {
		o.Prefix = [][]byte{[]byte("key"), []byte("key01"), {0xff}, {0xff, 0xff}, []byte("fill")}[rng.IntN(5)]
	}
	o.KeysOnly, o.AllVersions = rng.IntN(4) == 0, rng.IntN(3) == 0
	if rng.IntN(2) == 0 {
		o.Since = rng.Uint64N(100)
	}
	if rng.IntN(3) == 0 {
		o.Choose = func(key []byte) bool { return key[len(key)-1]%3 == 0 }
	}
	if rng.IntN(3) == 0 {
		o.Timestamp = uint64(rng.IntN(20))
	}
	return o, nil
}

func TestStream_ShowsWhatIteratorsShow(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	ctx := context.Background()
	for i := range uint64(dose.Short(1, 4)) {
		l, err := newLife(seed + i)
		testkit.Must(t, err)
		for range 10 {
			for range 10 {
				testkit.Must(t, l.act(ctx))
			}
			testkit.Must(t, l.fill())
			for range 10 {
				o, err := randomStream(l.rng, l)
				testkit.Must(t, err)
				if o.AllVersions { // no merge drops versions between the two
					testkit.Must(t, l.db.Compact(ctx, stoat.CompactOptions{}))
				}
				got, _, err := streamed(l.db, o)
				if err != nil {
					t.Fatalf("life %d, %+v: %v", seed+i, o, err)
				}
				want, err := iterated(l.db, o)
				testkit.Must(t, err)
				if !o.Ordered {
					slices.Sort(got)
					slices.Sort(want)
				}
				if err := got.diff(want); err != nil {
					t.Fatalf("life %d, %+v: %v", seed+i, o, err)
				}
			}
		}
		testkit.Must(t, l.db.Close())
	}
}

// A follower that applies what each stream shows since the one before has what the database
// has, if no merge drops deletions meanwhile.
func TestStream_DeletionsSinceAVersionBringAFollowerUpToDate(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	ks, err := db.Keyspace("other", nil)
	testkit.Must(t, err)
	rng := rand.New(rand.NewPCG(dose.Seed(t), 1))
	// An open snapshot keeps the deletions.
	hold := testkit.Begin(t, db, stoat.ReadOnly)
	defer hold.Discard()
	copied, since := map[string]string{}, uint64(0)
	for range 30 {
		for range 20 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				tx, key := tx.In(ks), testkit.Key(rng.IntN(200))
				switch rng.IntN(6) {
				case 0:
					return tx.Delete(key)
				case 1:
					return tx.DeleteRange(key, append(key[:len(key)-1:len(key)-1], 'x'))
				case 2:
					if rng.IntN(20) == 0 {
						return tx.DeleteRange(nil, nil)
					}
				}
				return tx.Set(key, []byte(testkit.RandomValue(rng, 700)))
			}))
		}
		o := stoat.StreamOptions{Keyspace: ks, Deletions: true, Ordered: rng.IntN(2) == 0}
		o.Since = since
		since, err = db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
			for _, i := range b.Items {
				for key := range copied {
					if i.End != nil && key >= string(i.Key) && (len(i.End) == 0 || key < string(i.End)) {
						delete(copied, key)
					}
				}
				switch {
				case i.Version <= o.Since:
					return fmt.Errorf("version %d since %d", i.Version, o.Since)
				case i.Deleted:
					delete(copied, string(i.Key))
				default:
					copied[string(i.Key)] = string(i.Value)
				}
			}
			return nil
		})
		testkit.Must(t, err)
		want := map[string]string{}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for k, v := range tx.In(ks).All() {
				want[string(k)] = string(v)
			}
			return tx.Err()
		}))
		for key := range want {
			if copied[key] != want[key] {
				t.Fatalf("%s is %.20q, want %.20q", key, copied[key], want[key])
			}
		}
		if len(copied) != len(want) {
			t.Fatalf("%d keys, want %d", len(copied), len(want))
		}
	}
}

// A deleted range begins and ends in keys of the caller, with timestamps or without.
func TestStream_DeletedRangesOfAKeyspaceWithTimestampsHaveTheirBounds(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.Must(t, err)
	set := func(key string) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(5).Set([]byte(key), nil) }))
	}
	purge := func(lo, hi []byte) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(5).PurgeRange(lo, hi) }))
	}
	for _, key := range []string{"a", "c\x00", "d", "x"} {
		set(key)
	}
	hold := testkit.Begin(t, db, stoat.ReadOnly) // keeps the deletions
	defer hold.Discard()
	purge([]byte("c\x00"), []byte("f\x00g"))
	purge([]byte("x"), nil)
	for lower, want := range map[string][]string{
		"":  {`"a"`, `"c\x00" to "f\x00g"`, `"x" to ""`},
		"d": {`"d" to "f\x00g"`, `"x" to ""`},
		"x": {`"x" to ""`},
	} {
		var got []string
		o := stoat.StreamOptions{Keyspace: ks, Deletions: true, Ordered: true, IterOptions: stoat.IterOptions{Lower: []byte(lower)}}
		_, err := db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
			for _, i := range b.Items {
				if i.End == nil {
					got = append(got, fmt.Sprintf("%q", i.Key))
					continue
				}
				got = append(got, fmt.Sprintf("%q to %q", i.Key, i.End))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("from %q: the stream has %s, %v; want %s", lower, got, err, want)
		}
	}
}

// Tables may end between two versions of a key, and a merge of one of them frees its part of
// a deleted range.
func TestStream_ADeletedRangeThatBeginsBetweenVersionsComesBeforeThem(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = testkit.SmallMemtable })
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	set := func(key string, at uint64, value []byte) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(at).Set([]byte(key), value) }))
	}
	compact := func(o stoat.CompactOptions) {
		o.Keyspace = ks
		testkit.Must(t, db.Compact(t.Context(), o))
	}
	set("a", 1, nil)
	for at := range uint64(3000) {
		set("k", 10*at, bytes.Repeat([]byte{byte(at)}, 100))
	}
	set("z", 1, nil)
	compact(stoat.CompactOptions{})
	hold := testkit.Begin(t, db, stoat.ReadOnly) // keeps the deletions
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(1).PurgeRange([]byte("a"), []byte("zz")) }))
	set("k", 15_001, []byte("new"))
	set("k", 50_000, []byte("newer"))
	compact(stoat.CompactOptions{})
	hold.Discard()
	compact(stoat.CompactOptions{Lower: []byte("a"), Upper: []byte("k")})
	got := map[string][]byte{}
	deletions := 0
	o := stoat.StreamOptions{Keyspace: ks, Deletions: true, Ordered: true}
	_, err = db.Stream(t.Context(), o, func(b *stoat.StreamBatch) error {
		for _, i := range b.Items {
			if i.End == nil {
				got[fmt.Sprintf("%s at %d", i.Key, i.Timestamp)] = bytes.Clone(i.Value)
				continue
			}
			deletions++
			maps.DeleteFunc(got, func(key string, _ []byte) bool {
				return key >= string(i.Key) && (len(i.End) == 0 || key < string(i.End))
			})
		}
		return nil
	})
	testkit.Must(t, err)
	if len(got) != 2 || string(got["k at 15001"]) != "new" || string(got["k at 50000"]) != "newer" || deletions == 0 {
		t.Errorf("after %d deleted ranges there are %q", deletions, got)
	}
	testkit.Must(t, db.Close())
}

// The snapshot of a stream keeps what it reads.
func TestStream_GoesOnWhenItsTimestampIsDiscarded(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	const keys = 20_000
	for at := uint64(9); at < 19; at += 5 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range keys {
				if err := tx.In(ks).At(at).Set(testkit.Key(i), bytes.Repeat([]byte{byte(at)}, 400)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	read, batches := 0, 0
	o := stoat.StreamOptions{AllKeyspaces: true, Timestamp: 10, Ordered: true, Workers: 1}
	_, err = db.Stream(t.Context(), o, func(b *stoat.StreamBatch) error {
		if batches++; batches == 1 {
			testkit.Must(t, ks.DiscardBelow(20))
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		for _, i := range b.Items {
			if i.Timestamp != 9 || !bytes.Equal(i.Value, bytes.Repeat([]byte{9}, 400)) {
				t.Fatalf("%q has the version at %d", i.Key, i.Timestamp)
			}
			read++
		}
		return nil
	})
	if err != nil || read != keys || batches < 3 {
		t.Errorf("%d of %d keys in %d batches, %v", read, keys, batches, err)
	}
	_, err = db.Stream(t.Context(), o, func(*stoat.StreamBatch) error { return nil })
	testkit.WantError(t, "a later stream", err, stoat.ErrTimestampDiscarded)
	testkit.Must(t, db.Close())
}

func TestStream_ReadsOneSnapshotBesideWrites(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	testkit.SetKeys(t, db, 0, 2000, 700, 'x')
	n := 0
	_, err := db.Stream(context.Background(), stoat.StreamOptions{}, func(b *stoat.StreamBatch) error {
		testkit.SetKeys(t, db, n%2000, n%2000+40, 700, 'y')
		for _, i := range b.Items {
			if i.Value[0] != 'x' || len(i.Value) != 700 {
				return fmt.Errorf("%s is %.20q", i.Key, i.Value)
			}
		}
		n += len(b.Items)
		return nil
	})
	if err != nil || n != 2000 {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestStream_EndsWithTheErrorOfTheFunctionOrOfTheContext(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	testkit.SetKeys(t, db, 0, 4000, 900, 'x')
	testkit.Must(t, testkit.WaitForFlushes(db))
	enough := errors.New("enough")
	for _, ordered := range []bool{false, true} {
		calls := 0
		_, err := db.Stream(context.Background(), stoat.StreamOptions{Ordered: ordered}, func(*stoat.StreamBatch) error {
			calls++
			return enough
		})
		if err != enough || calls != 1 {
			t.Errorf("ordered %t: %v after %d calls", ordered, err, calls)
		}
		ctx, cancel := context.WithCancel(context.Background())
		_, err = db.Stream(ctx, stoat.StreamOptions{Ordered: ordered}, func(*stoat.StreamBatch) error {
			cancel()
			return nil
		})
		testkit.WantError(t, "a canceled context", err, context.Canceled)
	}
	for name, o := range map[string]stoat.StreamOptions{"workers": {Workers: -1}, "reverse": {IterOptions: stoat.IterOptions{Reverse: true}}} {
		_, err := db.Stream(context.Background(), o, func(*stoat.StreamBatch) error { return nil })
		testkit.WantError(t, name, err, stoat.ErrInvalid)
	}
	_, err := db.Stream(context.Background(), stoat.StreamOptions{}, nil)
	testkit.WantError(t, "no function", err, stoat.ErrInvalid)
}

func TestStream_EndsWhenItsDatabaseIsClosed(t *testing.T) {
	t.Parallel()
	for _, o := range []stoat.StreamOptions{{}, {Ordered: true}, {Ordered: true, Deletions: true}} {
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
		testkit.SetKeys(t, db, 0, 4000, 900, 'x')
		testkit.Must(t, testkit.WaitForFlushes(db))
		calls := 0
		_, err := db.Stream(context.Background(), o, func(*stoat.StreamBatch) error {
			if calls++; calls == 2 {
				return db.Close()
			}
			return nil
		})
		testkit.WantError(t, "Stream", err, stoat.ErrClosed)
		if calls != 2 {
			t.Errorf("ordered %t: %d calls, and the database was closed in the second", o.Ordered, calls)
		}
	}
}

func TestStream_OfADroppedOrForeignKeyspaceIsAnError(t *testing.T) {
	t.Parallel()
	db, other := testkit.OpenMem(t), testkit.OpenMem(t)
	ks, err := db.Keyspace("x", nil)
	testkit.Must(t, err)
	see := func(*stoat.StreamBatch) error { return nil }
	_, err = other.Stream(context.Background(), stoat.StreamOptions{Keyspace: ks}, see)
	testkit.WantError(t, "another database", err, stoat.ErrInvalid)
	testkit.Must(t, db.DropKeyspace("x"))
	_, err = db.Stream(context.Background(), stoat.StreamOptions{Keyspace: ks}, see)
	testkit.WantError(t, "a dropped keyspace", err, stoat.ErrNoKeyspace)
}

func TestStream_AKeyspaceDroppedMeanwhileIsDeliveredAndStaysDropped(t *testing.T) {
	t.Parallel()
	for _, o := range []stoat.StreamOptions{{}, {Deletions: true}} {
		db := testkit.OpenMem(t)
		want := dump{"a"}
		spaces := []*stoat.Keyspace{nil}
		for _, name := range []string{"c", "b", "timed"} {
			var o stoat.KeyspaceOptions
			if name == "timed" {
				o.Timestamps = stoat.TimestampsChecked
			}
			ks, err := db.Keyspace(name, &o)
			testkit.Must(t, err)
			spaces, want = append(spaces, ks), append(want, name+" a")
		}
		for _, ks := range spaces {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				if tx = tx.In(ks); ks != nil && ks.Name() == "timed" {
					return tx.At(5).Set([]byte("a"), nil)
				}
				return tx.Set([]byte("a"), nil)
			}))
		}
		var got dump
		o.AllKeyspaces = true
		_, err := db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
			for _, i := range b.Items {
				got = append(got, nameOf(b.Keyspace)+string(i.Key))
			}
			if b.Keyspace == nil {
				return errors.Join(db.DropKeyspace("b"), db.DropKeyspace("timed"))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("deletions %t: the stream has %q, %v; want %q", o.Deletions, got, err, want)
		}
		infos, err := db.Keyspaces()
		if err != nil || len(infos) != 2 || infos[1].Name != "c" {
			t.Errorf("after the stream there are %+v, %v", infos, err)
		}
		testkit.Must(t, db.Close())
	}
}

func TestStream_SinceShowsLaterChangesOfTheTimestampInAllKeyspaces(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	timed, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	set := func(key string, at uint64, value string) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return errors.Join(tx.Set([]byte(key), []byte(value)), tx.In(timed).At(at).Set([]byte(key), []byte(value)))
		}))
	}
	set("a", 10, "old")
	set("b", 10, "old")
	set("late", 10, "old")
	since, err := db.Stream(context.Background(), stoat.StreamOptions{AllKeyspaces: true}, func(*stoat.StreamBatch) error { return nil })
	testkit.Must(t, err)
	set("a", 20, "new")
	set("late", 5, "new") // the version at 10 stays the current one
	set("c", 30, "new")
	for _, c := range []struct {
		at   uint64
		want []string
	}{
		{0, []string{"a new", "c new", "late new", "timed a new", "timed c new"}},
		{20, []string{"a new", "c new", "late new", "timed a new"}},
		{5, []string{"a new", "c new", "late new", "timed late new"}},
	} {
		var got []string
		o := stoat.StreamOptions{AllKeyspaces: true, Timestamp: c.at, Ordered: true, IterOptions: stoat.IterOptions{Since: since}}
		_, err := db.Stream(context.Background(), o, func(b *stoat.StreamBatch) error {
			for _, i := range b.Items {
				got = append(got, fmt.Sprintf("%s%s %s", nameOf(b.Keyspace), i.Key, i.Value))
			}
			return nil
		})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("at %d: the stream has %q, %v; want %q", c.at, got, err, c.want)
		}
	}
}

func TestStream_AnEmptyUpperBoundIsBelowAllKeys(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("a"), nil) }))
	for _, o := range []stoat.StreamOptions{{}, {Deletions: true}} {
		o.Upper = []byte{}
		got, _, err := streamed(db, o)
		if err != nil || len(got) > 0 {
			t.Errorf("with deletions %v: the stream has %q, %v", o.Deletions, got, err)
		}
	}
}

// Large values are lent, small ones are copied, and both are right.
func TestStream_LargeValues(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	long := strings.Repeat("long", 300_000)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 5 {
			if err := tx.Set(testkit.Key(i), []byte(long[i:])); err != nil {
				return err
			}
		}
		return nil
	}))
	n := 0
	_, err := db.Stream(context.Background(), stoat.StreamOptions{Ordered: true}, func(b *stoat.StreamBatch) error {
		for _, item := range b.Items {
			if string(item.Value) != long[n:] {
				return fmt.Errorf("%s has %d bytes", item.Key, len(item.Value))
			}
			n++
		}
		return nil
	})
	if err != nil || n != 5 {
		t.Errorf("%d values, %v", n, err)
	}
}
