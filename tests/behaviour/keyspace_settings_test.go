package behaviour

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// versionsIn counts the versions that a keyspace shows of a key.
func versionsIn(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, key string) (n int) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.In(ks).Iterator(stoat.IterOptions{AllVersions: true, Prefix: []byte(key)})
		defer it.Close()
		for it.Next() {
			n++
		}
		return it.Err()
	}))
	return n
}

// Another process compacts the database and opens no keyspace.
func TestKeyspaceSettings_HoldInCompactionsOfAnUnopenedKeyspace(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions = 2 })
	keep := map[string]int{"": 2, "five": 5, "one": 1, "many": 100}
	spaces := map[string]*stoat.Keyspace{"": nil}
	for name, n := range keep {
		if name != "" {
			ks, err := db.Keyspace(name, &stoat.KeyspaceOptions{NumVersions: n})
			testkit.Must(t, err)
			spaces[name] = ks
		}
	}
	for i := range 20 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, ks := range spaces {
				for _, key := range []string{"a", "z"} {
					if err := tx.In(ks).Set([]byte(key), fmt.Append(nil, i)); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	}
	testkit.Must(t, db.Close())
	compact(t, fs, stoat.Options{})
	db = testkit.OpenOn(t, fs, nil)
	for name, want := range keep {
		var ks *stoat.Keyspace
		if name != "" {
			ks = keyspace(t, db, name)
		}
		for _, key := range []string{"a", "z"} {
			if n := versionsIn(t, db, ks, key); n != min(want, 20) {
				t.Errorf("keyspace %q has %d versions of %q, want %d", name, n, key, min(want, 20))
			}
		}
	}
	testkit.Must(t, db.Close())
}

func TestKeyspaceSettings_CompressionAndThresholdsAreOfEach(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte("compress me "), 100)
	size := func(name string, o *stoat.KeyspaceOptions) (tables, values int64) {
		fs := memfs.New()
		db := testkit.OpenOn(t, fs, nil)
		ks, err := db.Keyspace(name, o)
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range 200 {
				if err := tx.In(ks).Set(testkit.Key(i), value); err != nil {
					return err
				}
			}
			return nil
		}))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		s := db.Stats()
		testkit.Must(t, db.Close())
		return s.TableBytes, s.ValueBytes
	}
	all := int64(200 * len(value))
	if tables, values := size("plain", nil); tables > all/4 || values < all {
		t.Errorf("plain: tables of %d bytes, value files of %d, for %d of values", tables, values, all)
	}
	if tables, values := size("small", &stoat.KeyspaceOptions{Compression: stoat.CompressionSmall}); tables+values > all/3 {
		t.Errorf("compressed: tables of %d bytes, value files of %d, for %d of values", tables, values, all)
	}
	inTables := &stoat.KeyspaceOptions{ValueThreshold: 1 << 20}
	if tables, values := size("inline", inTables); tables < all || values != 0 {
		t.Errorf("in tables: tables of %d bytes, value files of %d, for %d of values", tables, values, all)
	}
	inTables.Compression = stoat.CompressionFast
	if tables, values := size("both", inTables); tables > all/3 || values != 0 {
		t.Errorf("compressed in tables: tables of %d bytes, value files of %d, for %d of values", tables, values, all)
	}
}

func TestKeyspaceSettings_AreListedAndChange(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions = 7 })
	open := func(o *stoat.KeyspaceOptions) stoat.Settings {
		t.Helper()
		_, err := db.Keyspace("one", o)
		testkit.Must(t, err)
		all, err := db.Keyspaces()
		testkit.Must(t, err)
		if len(all) != 2 || all[1].Name != "one" || all[0].Settings.NumVersions != 7 {
			t.Fatalf("the keyspaces are %+v", all)
		}
		return all[1].Settings
	}
	want := stoat.Settings{ValueThreshold: 512, LargeValueThreshold: 4 << 10, Compression: stoat.CompressionNone, NumVersions: 1}
	if got := open(nil); got != want {
		t.Errorf("a new keyspace has the settings %+v, want %+v", got, want)
	}
	want.NumVersions, want.DefaultTTL, want.Compression = 3, 1501*time.Millisecond, stoat.CompressionFast
	if got := open(&stoat.KeyspaceOptions{NumVersions: 3, DefaultTTL: 1500*time.Millisecond + 1, Compression: stoat.CompressionFast}); got != want {
		t.Errorf("after a change the settings are %+v, want %+v", got, want)
	}
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, fs, nil)
	if got := open(nil); got != want {
		t.Errorf("after a new opening the settings are %+v, want %+v", got, want)
	}
	want.DefaultTTL = 0
	if got := open(&stoat.KeyspaceOptions{DefaultTTL: -1}); got != want {
		t.Errorf("without a time to live the settings are %+v, want %+v", got, want)
	}
	for _, o := range []stoat.KeyspaceOptions{{NumVersions: -1}, {Compression: 9}, {ValueThreshold: 1}, {ValueThreshold: 1 << 20}} {
		_, err := db.Keyspace("one", &o)
		testkit.WantError(t, fmt.Sprintf("%+v", o), err, stoat.ErrInvalid)
	}
	testkit.Must(t, db.Close())
}

func TestKeyspaceSettings_DefaultTTLIsForValuesWithoutTheirOwn(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Clock: clock, DefaultTTL: time.Hour})
	testkit.Must(t, err)
	short, err := db.Keyspace("short", &stoat.KeyspaceOptions{DefaultTTL: time.Minute})
	testkit.Must(t, err)
	never := keyspace(t, db, "never")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, ks := range []*stoat.Keyspace{nil, short, never} {
			testkit.Must(t, tx.In(ks).Set([]byte("default"), nil))
			testkit.Must(t, tx.In(ks).Set([]byte("meta"), nil, stoat.UserMeta(1)))
			testkit.Must(t, tx.In(ks).SetReader([]byte("read"), bytes.NewReader([]byte("r"))))
			testkit.Must(t, tx.In(ks).Set([]byte("own"), nil, stoat.TTL(24*time.Hour)))
			testkit.Must(t, tx.In(ks).Set([]byte("forever"), nil, stoat.ExpiresAt(time.Time{})))
		}
		return nil
	}))
	all := []string{"default", "forever", "meta", "own", "read"}
	rest := []string{"forever", "own"}
	check := func(inDefault, inShort, inNever []string) {
		t.Helper()
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for ks, want := range map[*stoat.Keyspace][]string{nil: inDefault, short: inShort, never: inNever} {
				if got := shown(t, tx.In(ks), stoat.IterOptions{}); !slices.Equal(got, want) {
					t.Errorf("keyspace %q has %q, want %q", nameOf(ks), got, want)
				}
			}
			return nil
		}))
	}
	check(all, all, all)
	clock.Ms.Add(time.Minute.Milliseconds())
	check(all, rest, all)
	clock.Ms.Add(time.Hour.Milliseconds())
	check(rest, rest, all)
	testkit.Must(t, db.Close())
}

func TestKeyspaceSettings_AChangeIsReportedWithTheName(t *testing.T) {
	t.Parallel()
	var log testkit.EventLog
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.Events = log.Add })
	for _, o := range []*stoat.KeyspaceOptions{
		{NumVersions: 10, Filter: "f"}, nil, {}, {NumVersions: 10}, // a new keyspace, and no changes
		{NumVersions: 1}, {Filter: "none", DefaultTTL: time.Hour},
	} {
		_, err := db.Keyspace("one", o)
		testkit.Must(t, err)
	}
	testkit.Must(t, db.Close())
	first := stoat.Settings{ValueThreshold: 512, LargeValueThreshold: 4 << 10, Compression: stoat.CompressionNone, NumVersions: 10, Filter: "f"}
	second, third := first, first
	second.NumVersions = 1
	third.NumVersions, third.Filter, third.DefaultTTL = 1, "", time.Hour
	want := []stoat.SettingsChanged{{Keyspace: "one", Old: first, New: second}, {Keyspace: "one", Old: second, New: third}}
	var got []stoat.SettingsChanged
	for _, e := range log.All {
		if e, ok := e.(stoat.SettingsChanged); ok {
			got = append(got, e)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the events are %+v, want %+v", got, want)
	}
	if len(got) > 0 {
		if _, _, attrs := got[0].Record(); fmt.Sprint(attrs) != "[keyspace=one NumVersions=[old=10 new=1]]" {
			t.Errorf("the log record has %v", attrs)
		}
	}
}

func TestKeyspaceSettings_TheNameNoneRemovesAName(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	names := func(o stoat.Options, k *stoat.KeyspaceOptions) (got string) {
		t.Helper()
		o.FS = fs
		db, err := stoat.Open(testkit.Dir, &o)
		testkit.Must(t, err)
		_, err = db.Keyspace("one", k)
		testkit.Must(t, err)
		all, err := db.Keyspaces()
		testkit.Must(t, err)
		for _, k := range all {
			got += fmt.Sprintf("[%s %s]", k.Settings.MergeFunction, k.Settings.Filter)
		}
		testkit.Must(t, db.Close())
		return got
	}
	for i, c := range []struct {
		o    stoat.Options
		k    *stoat.KeyspaceOptions
		want string
	}{
		{stoat.Options{MergeFunction: "none", Filter: "none"}, &stoat.KeyspaceOptions{MergeFunction: "none", Filter: "none"}, "[ ][ ]"},
		{stoat.Options{MergeFunction: "m", Filter: "f"}, &stoat.KeyspaceOptions{MergeFunction: "n", Filter: "g"}, "[m f][n g]"},
		{stoat.Options{}, nil, "[m f][n g]"},
		{stoat.Options{MergeFunction: "none"}, &stoat.KeyspaceOptions{Filter: "none"}, "[ f][n ]"},
		{stoat.Options{Filter: "none"}, &stoat.KeyspaceOptions{MergeFunction: "none"}, "[ ][ ]"},
		{stoat.Options{}, nil, "[ ][ ]"},
		{stoat.Options{Filter: "h"}, nil, "[ h][ ]"},
	} {
		if got := names(c.o, c.k); got != c.want {
			t.Errorf("open %d: the names are %s, want %s", i, got, c.want)
		}
	}
	keep := func([]byte) (stoat.FilterDecision, []byte) { return stoat.FilterKeep, nil }
	_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Filters: []stoat.Filter{&namedFilter{"none", keep}}})
	testkit.WantError(t, "a filter with the name none", err, stoat.ErrInvalid)
}

func TestKeyspaceSettings_ARemovedFilterIsAskedNoMore(t *testing.T) {
	t.Parallel()
	asked := 0
	count := &namedFilter{"count", func([]byte) (stoat.FilterDecision, []byte) { asked++; return stoat.FilterDrop, nil }}
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.Filters = []stoat.Filter{count} })
	for _, c := range []struct {
		name string
		want int
	}{{"count", 1}, {"none", 1}, {"count", 2}} {
		ks, err := db.Keyspace("one", &stoat.KeyspaceOptions{Filter: c.name})
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), []byte(c.name)) }))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		if asked != c.want {
			t.Errorf("with the filter %s, compactions have asked %d times, want %d", c.name, asked, c.want)
		}
	}
	testkit.Must(t, db.Close())
}

// A program copies an old version by a buffered commit, and then lets compactions drop it. A
// power cut leaves one of the two.
func TestKeyspaceSettings_AreNeverKeptWithoutAnEarlierCommit(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	ks, err := db.Keyspace("versions", &stoat.KeyspaceOptions{NumVersions: 2})
	testkit.Must(t, err)
	for _, value := range []string{"old", "new"} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), []byte(value)) }))
	}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("copy"), []byte("old")) }, stoat.WithDurability(stoat.Buffered)))
	_, err = db.Keyspace("versions", &stoat.KeyspaceOptions{NumVersions: 1})
	testkit.Must(t, err)
	after := disk.CrashKeeping(func(int) bool { return false })
	testkit.Must(t, db.Close())

	compact(t, after, stoat.Options{})
	db = testkit.OpenOn(t, after, nil)
	defer func() { testkit.Must(t, db.Close()) }()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		has, err := tx.Has([]byte("copy"))
		if !has && versionsIn(t, db, keyspace(t, db, "versions"), "k") < 2 {
			t.Error("the old version is gone, and an earlier commit that copied it is gone, too")
		}
		return err
	}))
}
