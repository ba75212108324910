package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// keyspace returns the keyspace with a name.
func keyspace(t *testing.T, db *stoat.DB, name string) *stoat.Keyspace {
	t.Helper()
	ks, err := db.Keyspace(name, nil)
	testkit.Must(t, err)
	return ks
}

// names returns the names of all keyspaces but the default one.
func names(t *testing.T, db *stoat.DB) (names []string) {
	t.Helper()
	all, err := db.Keyspaces()
	testkit.Must(t, err)
	if len(all) == 0 || all[0].Name != "" {
		t.Fatalf("the first keyspace is not the default one: %+v", all)
	}
	for _, k := range all[1:] {
		names = append(names, k.Name)
	}
	return names
}

// awkward are keys at the borders of the stored keys of a keyspace.
var awkward = []string{"\x00", "\x00\x00", "a", "a\xff", "\xfe\xff\xff", "\xff", "\xff\x00", "\xff\x00\xff", "\xff\x01",
	"\xff\x01a", "\xff\xf0", "\xff\xf1", "\xff\xf1\x00\x00\x00\xf1", "\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\xff"}

// fill sets the awkward keys in the default keyspace and in each of spaces. A value
// names its keyspace.
func fill(t *testing.T, db *stoat.DB, spaces ...*stoat.Keyspace) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, ks := range append([]*stoat.Keyspace{nil}, spaces...) {
			for _, key := range awkward {
				if err := tx.In(ks).Set([]byte(key), []byte(nameOf(ks)+key)); err != nil {
					return err
				}
			}
		}
		return nil
	}))
}

func nameOf(ks *stoat.Keyspace) string {
	if ks == nil {
		return ""
	}
	return ks.Name()
}

// shown returns the keys that an iterator shows.
func shown(t *testing.T, tx stoat.Txn, o stoat.IterOptions) (keys []string) {
	t.Helper()
	it := tx.Iterator(o)
	defer it.Close()
	for it.Next() {
		keys = append(keys, string(it.Key()))
		if item := it.Item(); string(item.Key()) != string(it.Key()) {
			t.Errorf("the iterator is at %q, its item at %q", it.Key(), item.Key())
		}
	}
	testkit.Must(t, it.Err())
	return keys
}

// mustHoldAwkward demands that tx, in ks, has the awkward keys and no others.
func mustHoldAwkward(t *testing.T, tx stoat.Txn, ks *stoat.Keyspace) {
	t.Helper()
	tx = tx.In(ks)
	if keys := shown(t, tx, stoat.IterOptions{}); !slices.Equal(keys, awkward) {
		t.Fatalf("%q: the keyspace has %q", nameOf(ks), keys)
	}
	for i, key := range awkward {
		value, err := tx.Get([]byte(key))
		item, itemErr := tx.GetItem([]byte(key))
		ok, hasErr := tx.Has([]byte(key))
		if string(value) != nameOf(ks)+key || !ok || string(item.Key()) != key || errors.Join(err, itemErr, hasErr) != nil {
			t.Errorf("%q: key %q has the value %q: %v", nameOf(ks), key, value, errors.Join(err, itemErr, hasErr))
		}
		from := stoat.IterOptions{Lower: []byte(key)}
		if keys := shown(t, tx, from); !slices.Equal(keys, awkward[i:]) {
			t.Errorf("%q: from %q there are %q", nameOf(ks), key, keys)
		}
		if keys := shown(t, tx, stoat.IterOptions{Upper: []byte(key)}); !slices.Equal(keys, awkward[:i]) {
			t.Errorf("%q: up to %q there are %q", nameOf(ks), key, keys)
		}
		for _, reverse := range []bool{false, true} {
			it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
			if !it.Seek([]byte(key)) || string(it.Key()) != key {
				t.Errorf("%q: a seek to %q finds %q", nameOf(ks), key, it.Key())
			}
			testkit.Must(t, it.Close())
		}
		want := slices.DeleteFunc(slices.Clone(awkward), func(k string) bool { return !strings.HasPrefix(k, key) })
		if keys := shown(t, tx, stoat.IterOptions{Prefix: []byte(key)}); !slices.Equal(keys, want) {
			t.Errorf("%q: prefix %q shows %q, want %q", nameOf(ks), key, keys, want)
		}
	}
	backward := shown(t, tx, stoat.IterOptions{Reverse: true})
	if slices.Reverse(backward); !slices.Equal(backward, awkward) {
		t.Errorf("%q: backward there are %q", nameOf(ks), backward)
	}
}

func TestKeyspace_KeysOfDifferentKeyspacesNeverMeet(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	var spaces []*stoat.Keyspace
	for i := range 250 {
		spaces = append(spaces, keyspace(t, db, fmt.Sprintf("ks%03d", i)))
	}
	chosen := []*stoat.Keyspace{spaces[0], spaces[1], spaces[238], spaces[239], spaces[240], spaces[241], spaces[249]}
	fill(t, db, chosen...)
	check := func() {
		t.Helper()
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for _, ks := range append([]*stoat.Keyspace{nil}, chosen...) {
				mustHoldAwkward(t, tx, ks)
			}
			if keys := shown(t, tx.In(spaces[100]), stoat.IterOptions{}); len(keys) != 0 {
				t.Errorf("an empty keyspace has %q", keys)
			}
			return nil
		}))
	}
	check()
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	check()
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, fs, nil)
	for i := range chosen {
		chosen[i] = keyspace(t, db, chosen[i].Name())
	}
	spaces[100] = keyspace(t, db, "ks100")
	check()
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestKeyspace_OwnWritesAreOfTheirKeyspace(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one, two := keyspace(t, db, "one"), keyspace(t, db, "two")
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	for _, ks := range []*stoat.Keyspace{nil, one, two} {
		for _, key := range awkward {
			testkit.Must(t, tx.In(ks).Set([]byte(key), []byte(nameOf(ks)+key)))
		}
	}
	for _, ks := range []*stoat.Keyspace{nil, one, two} {
		mustHoldAwkward(t, tx, ks)
	}
	testkit.Must(t, tx.In(one).DeleteRange(nil, nil))
	testkit.Must(t, tx.DeleteRange([]byte("\xff"), nil))
	if keys := shown(t, tx.In(one), stoat.IterOptions{}); len(keys) > 0 {
		t.Errorf("after DeleteRange there are %q", keys)
	}
	if keys := shown(t, tx, stoat.IterOptions{}); !slices.Equal(keys, awkward[:5]) {
		t.Errorf("after DeleteRange from 0xff there are %q", keys)
	}
	mustHoldAwkward(t, tx, two)
	testkit.Must(t, tx.Commit())
}

func TestKeyspace_OneTransactionSpansMany(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	from, to := keyspace(t, db, "from"), keyspace(t, db, "to")
	set := func(ks *stoat.Keyspace, key, value string) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte(key), []byte(value)) }))
	}
	set(from, "k", "1")
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	if _, err := tx.In(from).Get([]byte("k")); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, tx.In(to).Set([]byte("k"), []byte("1")))
	set(to, "other", "x")
	set(nil, "k", "x") // the same key in another keyspace is no conflict
	testkit.Must(t, tx.Commit())

	tx = testkit.Begin(t, db, stoat.ReadWrite)
	for range tx.In(from).All() {
	}
	testkit.Must(t, tx.In(to).Set([]byte("k"), []byte("2")))
	set(from, "z", "phantom")
	testkit.WantError(t, "commit after a phantom in a keyspace", tx.Commit(), stoat.ErrConflict)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if v, err := tx.In(to).GetCopy([]byte("k"), nil); string(v) != "1" || err != nil {
			t.Errorf("the aborted transaction left %q, %v", v, err)
		}
		return nil
	}))
	testkit.WantError(t, "an operation after the end", tx.In(to).Set([]byte("k"), nil), stoat.ErrTxnDone)
}

func TestKeyspace_ScansToTheEndMeetNoWriteOfTheNextKeyspace(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one, two := keyspace(t, db, "one"), keyspace(t, db, "two")
	for _, ks := range []*stoat.Keyspace{nil, one} {
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		for range tx.In(ks).All() {
		}
		testkit.Must(t, tx.In(ks).Set([]byte("a"), nil))
		fillOne(t, db, two, "k")
		testkit.Must(t, tx.Commit())
	}
}

func fillOne(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, key string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte(key), []byte(key)) }))
}

func TestKeyspace_LongestKeysFit(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	for i := range 242 {
		keyspace(t, db, fmt.Sprint(i))
	}
	last := keyspace(t, db, "241")
	longest := bytes.Repeat([]byte{0xff}, stoat.MaxKeySize)
	large := bytes.Repeat([]byte("v"), 3000)
	for _, ks := range []*stoat.Keyspace{nil, last} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			testkit.WantError(t, "a key that is too long", tx.In(ks).Set(append(longest, 1), nil), stoat.ErrKeyTooLarge)
			_, err := tx.In(ks).Get(append(longest, 1))
			testkit.WantError(t, "Get of a key that is too long", err, stoat.ErrKeyTooLarge)
			_, err = tx.In(ks).Get(nil)
			testkit.WantError(t, "Get of an empty key", err, stoat.ErrEmptyKey)
			if _, err := tx.In(ks).Get(longest); !errors.Is(err, stoat.ErrNotFound) {
				return err
			}
			return tx.In(ks).Set(longest, large)
		}))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, fs, nil)
	last = keyspace(t, db, "241")
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, ks := range []*stoat.Keyspace{nil, last} {
			if v, err := tx.In(ks).Get(longest); !bytes.Equal(v, large) {
				t.Errorf("the longest key has a value of %d bytes, %v", len(v), err)
			}
			it := tx.In(ks).Iterator(stoat.IterOptions{Reverse: true})
			if !it.Seek(longest) || !bytes.Equal(it.Key(), longest) {
				t.Errorf("a seek does not find the longest key")
			}
			testkit.Must(t, it.Close())
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

func TestKeyspace_NamesAreChecked(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("n", 256)} {
		_, err := db.Keyspace(name, nil)
		testkit.WantError(t, fmt.Sprintf("the name %.10q", name), err, stoat.ErrInvalid)
	}
	for _, name := range []string{"a", "größer als", strings.Repeat("n", 255)} {
		if ks := keyspace(t, db, name); ks.Name() != name {
			t.Errorf("keyspace %q has the name %q", name, ks.Name())
		}
	}
	if got := names(t, db); len(got) != 3 || got[1] != "größer als" {
		t.Errorf("the names are %q", got)
	}
	testkit.WantError(t, "dropping an unknown keyspace", db.DropKeyspace("unknown"), stoat.ErrNoKeyspace)
}

func TestKeyspace_ReadOnlyDatabasesHaveWhatWasThere(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	one := keyspace(t, db, "one")
	fill(t, db, one)
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, fs, func(o *stoat.Options) { o.ReadOnly = true })
	_, err := db.Keyspace("two", nil)
	testkit.WantError(t, "opening an unknown keyspace", err, stoat.ErrNoKeyspace)
	_, err = db.Keyspace("one", &stoat.KeyspaceOptions{NumVersions: 9})
	testkit.WantError(t, "changing settings", err, stoat.ErrReadOnly)
	testkit.WantError(t, "dropping", db.DropKeyspace("one"), stoat.ErrReadOnly)
	one = keyspace(t, db, "one")
	testkit.Must(t, db.View(func(tx stoat.Txn) error { mustHoldAwkward(t, tx, one); return nil }))
	testkit.Must(t, db.Close())
}

func TestKeyspace_OfAnotherDatabaseIsInvalid(t *testing.T) {
	t.Parallel()
	db, other := testkit.OpenMem(t), testkit.OpenMem(t)
	ks := keyspace(t, other, "one")
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	_, err := tx.In(ks).Get([]byte("k"))
	testkit.WantError(t, "Get", err, stoat.ErrInvalid)
	testkit.WantError(t, "Set", tx.In(ks).Set([]byte("k"), nil), stoat.ErrInvalid)
	testkit.WantError(t, "DeleteRange", tx.In(ks).DeleteRange(nil, nil), stoat.ErrInvalid)
	testkit.WantError(t, "Iterator", tx.In(ks).Iterator(stoat.IterOptions{}).Close(), stoat.ErrInvalid)
	testkit.WantError(t, "Compact", db.Compact(t.Context(), stoat.CompactOptions{Keyspace: ks}), stoat.ErrInvalid)
}

// A zero Keyspace is a mistake, such as a field that was never set. It must not stand for the
// default keyspace.
func TestKeyspace_AZeroKeyspaceIsInvalid(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	var ks stoat.Keyspace
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	in := tx.In(&ks)
	_, get := in.Get([]byte("k"))
	_, many := in.GetMany([][]byte{[]byte("k")}, nil)
	_, estimate := db.EstimateRange(&ks, nil, nil)
	_, split := db.SplitRange(&ks, nil, nil, 2)
	_, ingest := db.Ingest(t.Context(), func(func(k, v []byte) bool) {}, stoat.IngestOptions{Keyspace: &ks})
	for what, err := range map[string]error{
		"Get": get, "GetMany": many, "Set": in.Set([]byte("k"), nil), "SetReader": in.SetReader([]byte("k"), bytes.NewReader(nil)),
		"Delete": in.Delete([]byte("k")), "DeleteRange": in.DeleteRange(nil, nil), "Merge": in.Merge([]byte("k"), nil),
		"Renew": in.Renew([]byte("k"), stoat.TTL(1)), "Iterator": in.Iterator(stoat.IterOptions{}).Close(),
		"At": in.At(1).Set([]byte("k"), nil), "Batch": db.NewBatch(stoat.BatchOptions{}).In(&ks).Set([]byte("k"), nil),
		"Compact":       db.Compact(t.Context(), stoat.CompactOptions{Keyspace: &ks}),
		"EstimateRange": estimate, "SplitRange": split, "Ingest": ingest,
	} {
		testkit.WantError(t, what, err, stoat.ErrInvalid)
	}
	testkit.Must(t, tx.Commit())
	if keys, _ := count(t, db); keys != 0 {
		t.Errorf("the default keyspace has %d keys", keys)
	}
}

func TestKeyspace_DropsByPrefixStayWithin(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	one, two := keyspace(t, db, "one"), keyspace(t, db, "two")
	fill(t, db, one, two)
	testkit.Must(t, one.DropPrefix(t.Context(), []byte("\xff")))
	testkit.Must(t, db.DropPrefix(t.Context(), nil))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		mustHoldAwkward(t, tx, two)
		if keys := shown(t, tx.In(one), stoat.IterOptions{}); !slices.Equal(keys, awkward[:5]) {
			t.Errorf("after DropPrefix of 0xff there are %q", keys)
		}
		if keys := shown(t, tx, stoat.IterOptions{}); len(keys) > 0 {
			t.Errorf("after DropPrefix of everything the default keyspace has %q", keys)
		}
		return nil
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Keyspace: two}))
	testkit.Must(t, two.DropAll(t.Context()))
	fill(t, db, one)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if keys := shown(t, tx.In(two), stoat.IterOptions{}); len(keys) > 0 {
			t.Errorf("after DropAll there are %q", keys)
		}
		mustHoldAwkward(t, tx, one)
		return nil
	}))
	testkit.Must(t, db.DropAll(t.Context()))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, ks := range []*stoat.Keyspace{nil, one, two} {
			if keys := shown(t, tx.In(ks), stoat.IterOptions{}); len(keys) > 0 {
				t.Errorf("after DropAll of the database, keyspace %q has %q", nameOf(ks), keys)
			}
		}
		return nil
	}))
	if got := names(t, db); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("after DropAll the keyspaces are %q", got)
	}
}
