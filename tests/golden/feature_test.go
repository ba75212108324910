package golden

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A feature is a part of the format with a golden database of its own. To add one,
// add it to features and make its file:
//
//	go test ./tests/golden -args -stoat.make-golden=NAME
//
// Neither the file nor what the functions demand may change after a release.
type feature struct {
	name string
	// create changes the options with which the database is made. Later opens have
	// none of them.
	create func(o *stoat.Options)
	// write fills the database.
	write func(t *testing.T, db *stoat.DB)
	// check compares the database with what write has written. compacted says that
	// DB.Compact has run since then.
	check func(t *testing.T, db *stoat.DB, compacted bool)
	// keys is the file of master keys, if the database is encrypted.
	keys string
}

// options are those of every open.
func (f *feature) options(disk *memfs.FS) *stoat.Options {
	o := goldenOptions(disk)
	if f.keys != "" {
		o.Keys = stoat.KeyFile(f.keys)
	}
	return o
}

var features = []feature{
	{"settings", createWithSettings, writeVersions, checkSettings, ""},
	{"partials", createMerging, writePartials, checkPartials, ""},
	{"timestamps", func(*stoat.Options) {}, writeTimestamps, checkTimestamps, ""},
	{"keyspaces", func(*stoat.Options) {}, writeKeyspaces, checkKeyspaces, ""},
	{"encryption", createEncrypted, writeEncrypted, checkEncrypted, "testdata/encryption.keys"},
	{"ingest", func(*stoat.Options) {}, writeIngests, checkIngests, ""},
	{"filter", createFiltered, writeFiltered, checkFiltered, ""},
	{"feed", func(o *stoat.Options) { o.ChangeRetention = 1 << 20 }, writeVersions, checkFeed, ""},
}

func TestGolden_DatabasesOfEveryFeatureOpen(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.zip")
	testkit.Must(t, err)
	known := map[string]bool{fileBackupZip: true}
	for _, f := range features {
		file := filepath.Join("testdata", f.name+".zip")
		if *makeGolden == f.name {
			f.make(t, file)
		}
		known[file] = true
		disk := readGolden(t, file)
		for _, state := range []string{"closed", "killed"} {
			t.Run(f.name+" "+state, func(t *testing.T) {
				t.Parallel()
				f.open(t, disk.Clone(), "/"+state)
			})
		}
	}
	for _, file := range files {
		if !known[file] && !strings.HasPrefix(filepath.Base(file), "v") {
			t.Errorf("%s is not the file of a feature", file)
		}
	}
}

// make writes the golden file of a feature.
func (f *feature) make(t *testing.T, file string) {
	t.Helper()
	disk := memfs.New()
	opts := f.options(disk)
	f.create(opts)
	db, err := stoat.Open("/db", opts)
	testkit.Must(t, err)
	f.write(t, db)
	killed := disk.Clone()
	testkit.Must(t, db.Close())
	writeZip(t, file, disk, killed)
}

// open opens a golden database in several ways, and uses it in between.
func (f *feature) open(t *testing.T, disk *memfs.FS, dir string) {
	for _, readOnly := range []bool{true, false, true} {
		opts := f.options(disk)
		opts.ReadOnly = readOnly
		db, err := stoat.Open(dir, opts)
		testkit.Must(t, err)
		f.check(t, db, false)
		testkit.MustBeSound(t, db)
		testkit.Must(t, db.Close())
	}
	db, err := stoat.Open(dir, f.options(disk))
	testkit.Must(t, err)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	f.check(t, db, true)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Checkpoint(t.Context(), "/copy"))
	testkit.Must(t, db.Close())
	db, err = stoat.Open("/copy", f.options(disk))
	testkit.Must(t, err)
	f.check(t, db, true)
	testkit.Must(t, db.Close())
}

// checkFeed demands the changes of writeVersions. A checkpoint has none.
func checkFeed(t *testing.T, db *stoat.DB, compacted bool) {
	if n := db.Settings().ChangeRetention; n != 1<<20 {
		t.Errorf("%d bytes of changes stay, want 1 MiB", n)
	}
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		var gone *feed.GoneError
		if errors.Is(err, stoat.ErrReadOnly) || compacted && errors.As(err, &gone) {
			return
		}
		testkit.Must(t, err)
		n := 0
		for change, err := range c.Changes {
			testkit.Must(t, err)
			if want := versionedValue(n, int(c.Version)-1); change.Kind != feed.Set || !bytes.Equal(change.Value, want) {
				t.Errorf("version %d: %s %s has the value %.30q, want %.30q", c.Version, change.Kind, change.Key, change.Value, want)
			}
			n++
		}
		if n != 20 {
			t.Errorf("version %d has %d changes", c.Version, n)
		}
		if c.Version == versionsWritten {
			return
		}
	}
}

func createWithSettings(o *stoat.Options) {
	o.NumVersions, o.Compression, o.ValueThreshold, o.LargeValueThreshold = 3, stoat.CompressionSmall, 100, 5000
}

// versionsWritten is how many versions of each key writeVersions writes.
const versionsWritten = 5

// versionedValue is a version of key i. Each second key has its values apart.
func versionedValue(i, version int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "value %d of key %d, ", version, i), 2+20*(i%2))
}

func writeVersions(t *testing.T, db *stoat.DB) {
	for version := range versionsWritten {
		if version == versionsWritten-1 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range 20 {
				if err := tx.Set(testkit.Key(i), versionedValue(i, version)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func checkSettings(t *testing.T, db *stoat.DB, compacted bool) {
	want := stoat.Settings{NumVersions: 3, Compression: stoat.CompressionSmall, ValueThreshold: 100, LargeValueThreshold: 5000}
	if got := db.Settings(); got != want {
		t.Errorf("settings %+v, want %+v", got, want)
	}
	seen := map[string]int{}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		for it.Next() {
			key := string(it.Key())
			var i int
			if _, err := fmt.Sscanf(key, "key-%d", &i); err != nil {
				return err
			}
			if want := versionedValue(i, versionsWritten-1-seen[key]); !bytes.Equal(it.Value(), want) {
				t.Errorf("%s has the value %.30q, want %.30q", key, it.Value(), want)
			}
			seen[key]++
		}
		return it.Err()
	}))
	if len(seen) != 20 {
		t.Errorf("%d keys, want 20", len(seen))
	}
	for key, n := range seen {
		if n < want.NumVersions || compacted && n > want.NumVersions {
			t.Errorf("%d versions of %s, want %d", n, key, want.NumVersions)
		}
	}
}
