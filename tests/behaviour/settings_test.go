package behaviour

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// writeVersions commits n versions of the key "k".
func writeVersions(t *testing.T, db *stoat.DB, n int) {
	t.Helper()
	for i := range n {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), fmt.Append(nil, i)) }))
	}
}

// versionsOf counts the versions that a database shows of the key "k".
func versionsOf(t *testing.T, db *stoat.DB) (n int) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{AllVersions: true, Prefix: []byte("k")})
		defer it.Close()
		for it.Next() {
			n++
		}
		return it.Err()
	}))
	return n
}

// compact opens the database with opts, compacts it and closes it.
func compact(t *testing.T, fs *memfs.FS, opts stoat.Options) {
	t.Helper()
	opts.FS = fs
	db, err := stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
}

func TestSettings_OpenWithoutOptionsKeepsHistory(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions = 10 })
	writeVersions(t, db, 12)
	testkit.Must(t, db.Close())
	compact(t, fs, stoat.Options{})
	db = testkit.OpenOn(t, fs, nil)
	if n := versionsOf(t, db); n != 10 {
		t.Errorf("%d versions are left, want 10", n)
	}
	testkit.Must(t, db.Close())
}

func TestSettings_OpenWithoutOptionsKeepsCompression(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.Compression, o.ValueThreshold = stoat.CompressionSmall, 2000 })
	value := []byte(strings.Repeat("a value that compresses well ", 30))
	write := func(db *stoat.DB) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range 1000 {
				if err := tx.Set(testkit.Key(i), value); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	write(db)
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, fs, nil)
	write(db)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if s := db.Stats(); s.TableBytes == 0 || s.TableBytes > int64(1000*len(value)/4) || s.Values > 0 {
		t.Errorf("tables of %d bytes and %d value files, for %d bytes of values", s.TableBytes, s.Values, 1000*len(value))
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		got, err := tx.Get(testkit.Key(7))
		if !bytes.Equal(got, value) {
			t.Errorf("got %q", got)
		}
		return err
	}))
	testkit.Must(t, db.Close())
}

var newSettings = stoat.Settings{ValueThreshold: 512, LargeValueThreshold: 4096, Compression: stoat.CompressionNone, NumVersions: 1}

// openSettings opens a database, returns its settings and the changes of settings that
// it reports, and closes it.
func openSettings(t *testing.T, fs *memfs.FS, opts stoat.Options) (got stoat.Settings, changes []stoat.SettingsChanged) {
	t.Helper()
	opts.FS = fs
	opts.Events = func(e stoat.Event) {
		if e, ok := e.(stoat.SettingsChanged); ok {
			changes = append(changes, e)
		}
	}
	db, err := stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	got = db.Settings()
	testkit.Must(t, db.Close())
	return got, changes
}

func TestSettings_AnotherValueIsAChangeAndIsReportedOnce(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	was := newSettings
	for i, c := range []struct {
		opts    stoat.Options
		want    stoat.Settings
		changes int
	}{
		{stoat.Options{}, newSettings, 0},
		{stoat.Options{NumVersions: 1, Compression: stoat.CompressionNone, ValueThreshold: 512}, newSettings, 0},
		{stoat.Options{NumVersions: 5}, stoat.Settings{ValueThreshold: 512, LargeValueThreshold: 4096, Compression: 1, NumVersions: 5}, 1},
		{stoat.Options{}, stoat.Settings{ValueThreshold: 512, LargeValueThreshold: 4096, Compression: 1, NumVersions: 5}, 0},
		{stoat.Options{NumVersions: 7, Compression: 2, ValueThreshold: 64, LargeValueThreshold: 64},
			stoat.Settings{ValueThreshold: 64, LargeValueThreshold: 64, Compression: 2, NumVersions: 7}, 1},
		{stoat.Options{LargeValueThreshold: 1 << 30}, stoat.Settings{ValueThreshold: 64, LargeValueThreshold: 1 << 30, Compression: 2, NumVersions: 7}, 1},
		{stoat.Options{ReadOnly: true, NumVersions: 3}, stoat.Settings{ValueThreshold: 64, LargeValueThreshold: 1 << 30, Compression: 2, NumVersions: 7}, 0},
		{stoat.Options{NumVersions: 1}, stoat.Settings{ValueThreshold: 64, LargeValueThreshold: 1 << 30, Compression: 2, NumVersions: 1}, 1},
		{stoat.Options{NumVersions: math.MaxInt}, stoat.Settings{ValueThreshold: 64, LargeValueThreshold: 1 << 30, Compression: 2, NumVersions: math.MaxInt32}, 1},
		{stoat.Options{NumVersions: math.MaxInt}, stoat.Settings{ValueThreshold: 64, LargeValueThreshold: 1 << 30, Compression: 2, NumVersions: math.MaxInt32}, 0},
	} {
		got, changes := openSettings(t, fs, c.opts)
		if got != c.want || len(changes) != c.changes {
			t.Errorf("open %d: %+v with changes %+v, want %+v and %d changes", i, got, changes, c.want, c.changes)
		}
		for _, e := range changes {
			if e.Old != was || e.New != got {
				t.Errorf("open %d reports a change of %+v to %+v, want %+v to %+v", i, e.Old, e.New, was, got)
			}
		}
		was = got
	}
}

func TestSettings_NewDatabaseStoresItsDefaults(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	if got, _ := openSettings(t, fs, stoat.Options{ValueThreshold: 8192}); got.LargeValueThreshold != 8192 {
		t.Errorf("%+v", got)
	}
	_, state, err := manifest.Load(fs, testkit.Dir, true, nil, nil)
	testkit.Must(t, err)
	want := manifest.Settings{NumVersions: 1, Compression: 1, ValueThreshold: 8192, LargeValueThreshold: 8192}
	if got := state.Keyspaces[0].Settings; got != want {
		t.Errorf("stored settings %+v, want %+v", got, want)
	}
}

func TestSettings_ThresholdsThatContradictAreRefused(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	openSettings(t, fs, stoat.Options{LargeValueThreshold: 5000, ValueThreshold: 1000})
	for _, o := range []stoat.Options{{ValueThreshold: 6000}, {LargeValueThreshold: 999}, {ValueThreshold: 7000, NumVersions: 2}} {
		o.FS = fs
		_, err := stoat.Open(testkit.Dir, &o)
		testkit.WantError(t, fmt.Sprintf("open with %d and %d", o.ValueThreshold, o.LargeValueThreshold), err, stoat.ErrInvalid)
	}
	want := stoat.Settings{ValueThreshold: 1000, LargeValueThreshold: 5000, Compression: 1, NumVersions: 1}
	if got, changes := openSettings(t, fs, stoat.Options{}); got != want || len(changes) > 0 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got, _ := openSettings(t, fs, stoat.Options{ValueThreshold: 6000, LargeValueThreshold: 6000}); got.ValueThreshold != 6000 {
		t.Errorf("%+v", got)
	}
}

func TestSettings_FailedOpenChangesNone(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	writeVersions(t, db, 1)
	testkit.Must(t, db.Close())
	faults := faultfs.New(fs)
	rule := faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: vfs.OpRead, Forever: true})
	_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, NumVersions: 9})
	testkit.WantError(t, "open of a log that cannot be read", err, faultfs.ErrInjected)
	if rule.Fired() == 0 {
		t.Error("no read failed")
	}
	if got, _ := openSettings(t, fs, stoat.Options{}); got != newSettings {
		t.Errorf("%+v, want %+v", got, newSettings)
	}
}

func TestSettings_FewerVersionsDropTheSurplusAndMoreBringNothingBack(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions = 10 })
	writeVersions(t, db, 12)
	testkit.Must(t, db.Close())
	for _, c := range []struct{ set, want int }{{0, 10}, {4, 4}, {0, 4}, {8, 4}} {
		compact(t, fs, stoat.Options{NumVersions: c.set})
		db := testkit.OpenOn(t, fs, nil)
		if n := versionsOf(t, db); n != c.want {
			t.Errorf("NumVersions %d: %d versions are left, want %d", c.set, n, c.want)
		}
		testkit.Must(t, db.Close())
	}
}

func TestSettings_CheckpointCarriesThem(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions, o.Compression = 3, stoat.CompressionFast })
	writeVersions(t, db, 5)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	want := db.Settings()
	testkit.Must(t, db.Close())
	copied, err := stoat.Open(testkit.CopyDir, &stoat.Options{FS: fs})
	testkit.Must(t, err)
	if got := copied.Settings(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	testkit.Must(t, copied.Close())
}

func TestSettings_PowerCutKeepsTheOldOrTheNew(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	writeVersions(t, db, 3)
	testkit.Must(t, db.Close())
	changed := newSettings
	changed.NumVersions, changed.Compression = 4, stoat.CompressionFast
	rng := rand.New(rand.NewPCG(1, 1))
	stop := testkit.States(fs)
	db = testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions, o.Compression = 4, stoat.CompressionFast })
	var cuts []*memfs.FS
	for _, state := range stop() {
		for _, kind := range memfs.CrashKinds() {
			cuts = append(cuts, state.Disk.Crash(kind, rng))
		}
	}
	during := len(cuts)
	for _, kind := range memfs.CrashKinds() {
		cuts = append(cuts, fs.Crash(kind, rng)) // after Open has returned
	}
	testkit.Must(t, db.Close())
	seen := map[stoat.Settings]int{}
	for i, cut := range cuts {
		got, _ := openSettings(t, cut, stoat.Options{})
		if got != changed && (got != newSettings || i >= during) {
			t.Errorf("cut %d of %d: %+v", i, len(cuts), got)
		}
		seen[got]++
	}
	if seen[newSettings] == 0 || seen[changed] == 0 {
		t.Errorf("the cuts left %+v", seen)
	}
}
