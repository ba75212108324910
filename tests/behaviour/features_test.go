package behaviour

import (
	"crypto/rand"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// editManifest appends an edit to the manifest of a closed database, as a later stoat
// would.
func editManifest(t *testing.T, fs vfs.FS, e manifest.Edit) {
	t.Helper()
	m, _, err := manifest.Load(fs, testkit.Dir, false, func() uint64 { return 1 }, nil)
	testkit.Must(t, err)
	testkit.Must(t, m.Append(e))
	testkit.Must(t, m.Close())
}

func TestFeature_OlderStoatRefusesARequiredOneByName(t *testing.T) {
	t.Parallel()
	fs := testkit.NewSampleDisk(t)
	editManifest(t, fs, manifest.Edit{RequiredFeatures: []string{"teleport", "time-travel"}})
	before := testkit.FilesOf(t, fs, testkit.Dir)
	for _, readOnly := range []bool{false, true} {
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, ReadOnly: readOnly})
		testkit.WantError(t, "open", err, stoat.ErrVersion)
		if text := err.Error(); !strings.Contains(text, `"teleport" "time-travel"`) || strings.Contains(text, "corrupt") {
			t.Errorf("the error is %q", text)
		}
	}
	_, err := stoat.Upgrade(testkit.Dir, &stoat.Options{FS: fs})
	testkit.WantError(t, "upgrade", err, stoat.ErrVersion)
	for name, content := range testkit.FilesOf(t, fs, testkit.Dir) {
		if before[name] != content {
			t.Errorf("%s has changed", name)
		}
	}
}

// Open gives a database the current master key only if it opens the database.
func TestFeature_ARefusedOpenLeavesTheMasterKeyAlone(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.Keys = testkit.Keys })
	testkit.Must(t, db.Close())
	keys, err := seal.Load(t.Context(), seal.Options{FS: fs, Dir: testkit.Dir, Provider: testkit.Keys, Clock: base.SystemClock{}, Random: rand.Reader, MaxAge: time.Hour})
	testkit.Must(t, err)
	m, _, err := manifest.Load(fs, testkit.Dir, false, func() uint64 { return 1 }, keys)
	testkit.Must(t, err)
	testkit.Must(t, m.Append(manifest.Edit{RequiredFeatures: []string{"teleport"}}))
	testkit.Must(t, m.Close())
	turned := stoat.StaticKeys(testkit.MasterKey("two"), testkit.MasterKey("one"))
	for _, unfinished := range []bool{false, true} {
		if unfinished {
			testkit.Must(t, testkit.WriteFile(fs, fs.Join(testkit.Dir, seal.TempName), nil))
		}
		before := testkit.FilesOf(t, fs, testkit.Dir)
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: turned})
		testkit.WantError(t, "open", err, stoat.ErrVersion)
		if !maps.Equal(testkit.FilesOf(t, fs, testkit.Dir), before) {
			t.Errorf("unfinished keys %t: a file has changed", unfinished)
		}
	}
}

func TestFeature_OlderStoatKeepsWhatItMayIgnore(t *testing.T) {
	t.Parallel()
	fs := testkit.NewSampleDisk(t)
	field := manifest.Field{Tag: 1<<15 | 77, Value: "of a later version"}
	editManifest(t, fs, manifest.Edit{OptionalFeatures: []string{"hints"}, Unknown: []manifest.Field{field},
		PutKeyspaces: []*manifest.Keyspace{{Settings: manifest.Settings{NumVersions: 2, Unknown: "\x01\x80\x02\x00ok"}}}})
	kept := func(dir string) {
		t.Helper()
		_, s, err := manifest.Load(fs, dir, true, nil, nil)
		testkit.Must(t, err)
		if len(s.OptionalFeatures) != 1 || len(s.Unknown) != 1 || s.Unknown[0] != field || !strings.HasSuffix(s.Keyspaces[0].Settings.Unknown, "ok") {
			t.Errorf("%s: features %q, fields %+v, settings %+v", dir, s.OptionalFeatures, s.Unknown, s.Keyspaces[0].Settings)
		}
	}
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.NumVersions = 3 }) // which rewrites the settings
	if f := db.Format(); f.Version != manifest.FormatVersion || len(f.RequiredFeatures) > 0 || f.OptionalFeatures[0] != "hints" {
		t.Errorf("%+v", f)
	}
	testkit.SetKeys(t, db, 0, 100, 100, 7)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir)) // the copy has a new manifest
	testkit.Must(t, db.Close())
	kept(testkit.Dir)
	kept(testkit.CopyDir)
	// A manifest whose end is not proven gets a successor.
	fs = fs.Crash(memfs.KeepNone, nil)
	db = testkit.OpenOn(t, fs, nil)
	testkit.SetKeys(t, db, 0, 100, 100, 8)
	fs = fs.Clone()
	db = testkit.OpenOn(t, fs, nil)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
	kept(testkit.Dir)
}

func TestUpgrade_StoresSettingsOnceAndCreatesNothing(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	_, err := stoat.Upgrade(testkit.Dir, &stoat.Options{FS: fs})
	testkit.WantError(t, "upgrade of nothing", err, vfs.ErrNotExist)
	if names, err := fs.List(testkit.Dir); err == nil {
		t.Errorf("there is a directory with %q", names)
	}
	// A database whose manifest stores one setting only.
	testkit.Must(t, fs.MkdirAll(testkit.Dir))
	m, err := manifest.Create(fs, testkit.Dir, manifest.State{FormatVersion: manifest.FormatVersion, HashSeed: 7}, func() uint64 { return 2 }, nil)
	testkit.Must(t, err)
	testkit.Must(t, m.Append(manifest.Edit{PutKeyspaces: []*manifest.Keyspace{{Settings: manifest.Settings{NumVersions: 6}}}}))
	testkit.Must(t, m.Close())
	stored := func() manifest.Settings {
		_, s, err := manifest.Load(fs, testkit.Dir, true, nil, nil)
		testkit.Must(t, err)
		return s.Keyspaces[0].Settings
	}
	want := newSettings
	want.NumVersions = 6
	if got, changes := openSettings(t, fs, stoat.Options{}); got != want || len(changes) > 0 || stored() != (manifest.Settings{NumVersions: 6}) {
		t.Errorf("open: %+v, changes %+v, stored %+v", got, changes, stored())
	}
	for _, storing := range []bool{true, false} {
		r, err := stoat.Upgrade(testkit.Dir, &stoat.Options{FS: fs})
		testkit.Must(t, err)
		if r.StoredSettings != storing || r.Was.Version != manifest.FormatVersion || r.Now.Version != manifest.FormatVersion {
			t.Errorf("%+v, want settings stored: %v", r, storing)
		}
		if got := stored(); got != (manifest.Settings{NumVersions: 6, Compression: 1, ValueThreshold: 512, LargeValueThreshold: 4096}) {
			t.Errorf("stored settings %+v", got)
		}
	}
	if got, _ := openSettings(t, fs, stoat.Options{}); got != want {
		t.Errorf("settings %+v, want %+v", got, want)
	}
	_, err = stoat.Upgrade(testkit.Dir, &stoat.Options{FS: fs, ReadOnly: true})
	testkit.WantError(t, "read-only upgrade", err, stoat.ErrReadOnly)
}
