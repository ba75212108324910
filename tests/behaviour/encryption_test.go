package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func openEncrypted(t testing.TB, fs *memfs.FS, change func(*stoat.Options)) *stoat.DB {
	t.Helper()
	o := &stoat.Options{FS: fs, MemtableSize: 128 << 10, Keys: testkit.Keys}
	if change != nil {
		change(o)
	}
	db, err := stoat.Open(testkit.Dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestEncryption_ReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for _, c := range testkit.Compressions[:testkit.Raced(len(testkit.Compressions), 1)] {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			t.Parallel()
			const n = 1000
			fs := memfs.New()
			set := func(o *stoat.Options) { o.Compression = c }
			db := openEncrypted(t, fs, set)
			fillRecords(t, db, 0, n/2)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			fillRecords(t, db, n/2, n)
			checkRecords(t, db, n)
			if got := db.Format().RequiredFeatures; !slices.Equal(got, []string{"encryption"}) {
				t.Errorf("required features %v", got)
			}
			testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
			testkit.Must(t, db.Close())
			for _, dir := range []string{testkit.Dir, testkit.CopyDir} {
				for _, ro := range []bool{true, false} {
					db, err := stoat.Open(dir, &stoat.Options{FS: fs, Keys: testkit.Keys, ReadOnly: ro})
					testkit.Must(t, err)
					checkRecords(t, db, n)
					testkit.Must(t, db.Close())
				}
			}
		})
	}
}

// TestEncryption_MemoryStaysWithinTheBudget reads several times as much as the budget
// allows, in one transaction and in many.
func TestEncryption_MemoryStaysWithinTheBudget(t *testing.T) {
	t.Parallel()
	n := testkit.Raced(12_000, 2500)
	if testing.Short() {
		n = min(n, 4000)
	}
	const budget = 2 << 20
	db := openEncrypted(t, memfs.NewVolatile(), func(o *stoat.Options) { o.MemoryBudget, o.MemtableSize = budget, 64<<10 })
	defer db.Close()
	fillRecords(t, db, 0, n)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	// The transaction keeps what it has borrowed, whatever is given back meanwhile.
	old := testkit.Begin(t, db, stoat.ReadOnly)
	defer old.Discard()
	var borrowed [][]byte
	for i := range 100 {
		v, err := old.Get(testkit.Key(i))
		testkit.Must(t, err)
		borrowed = append(borrowed, v)
	}
	checkRecords(t, db, n)
	testkit.Eventually(t, "pages were given back", func() bool {
		for i := 0; i < n; i += 3 {
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				v, err := tx.Get(testkit.Key(i))
				if err != nil || !bytes.Equal(v, recordOf(i)) {
					t.Errorf("key %d: %d bytes, %v", i, len(v), err)
				}
				return nil
			}))
		}
		return db.Stats().Memory.GivenBack > 0
	})
	checkRecords(t, db, n)
	for i, v := range borrowed {
		if !bytes.Equal(v, recordOf(i)) {
			t.Errorf("the borrowed value of key %d has changed", i)
		}
	}
	if m := db.Stats().Memory; m.TablePages+m.ValuePages > budget {
		t.Errorf("%d bytes of decrypted pages of tables, %d of value files, the budget is %d", m.TablePages, m.ValuePages, budget)
	}
}

// TestEncryption_NoFileHasPlainText writes a sentinel into keys and values of all kinds,
// and searches all files after each step, and after a crash.
func TestEncryption_NoFileHasPlainText(t *testing.T) {
	t.Parallel()
	const sentinel = "a-sentinel-of-this-test"
	fs := memfs.New()
	search := func(when string, fs *memfs.FS) {
		t.Helper()
		for _, dir := range []string{testkit.Dir, testkit.CopyDir} {
			if _, err := fs.Stat(dir); err != nil {
				continue
			}
			for name, content := range testkit.FilesOf(t, fs, dir) {
				if i := strings.Index(content, sentinel[2:14]); i >= 0 {
					t.Fatalf("%s: %s has plain text at offset %d", when, name, i)
				}
			}
		}
	}
	db := openEncrypted(t, fs, nil)
	write := func(from, to, size int) {
		t.Helper()
		for i := from; i < to; i++ {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				value := []byte(strings.Repeat(sentinel, size/len(sentinel)+1))
				return tx.Set(fmt.Appendf(nil, "%s-%05d", sentinel, i), value, stoat.UserMeta(7))
			}))
		}
	}
	write(0, 200, 50)
	_, err := db.Keyspace(sentinel, nil)
	testkit.Must(t, err)
	search("in the log", fs)
	write(100, 300, 1000)
	write(300, 310, 300_000)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.SetReader([]byte(sentinel), strings.NewReader(strings.Repeat(sentinel, 100_000)))
	}))
	search("with value files", fs)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	search("after a compaction", fs)
	write(0, 305, 900)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.DeleteRange([]byte(sentinel+"-00020"), []byte(sentinel+"-00040"))
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Collect(t.Context()))
	search("after a collection", fs)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	write(310, 330, 700)
	search("after a checkpoint", fs)
	crashed := fs.Clone()
	testkit.Must(t, db.Close())
	search("after closing", fs)
	db = openEncrypted(t, crashed, nil)
	search("after a crash", crashed)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestEncryption_KeysMustFit(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := openEncrypted(t, fs, nil)
	fillRecords(t, db, 0, 10)
	testkit.Must(t, db.Close())
	before := testkit.FilesOf(t, fs, testkit.Dir)
	other := testkit.MasterKey("one")
	other.Key = bytes.Repeat([]byte{9}, stoat.MasterKeySize)
	for name, keys := range map[string]stoat.KeyProvider{
		"none":             nil,
		"another ID":       stoat.StaticKeys(testkit.MasterKey("two")),
		"another key":      stoat.StaticKeys(other),
		"a short key":      stoat.StaticKeys(stoat.MasterKey{ID: "one", Key: []byte("short")}),
		"no file":          stoat.KeyFile("/does/not/exist"),
		"a key without ID": stoat.StaticKeys(stoat.MasterKey{Key: other.Key}),
	} {
		for _, ro := range []bool{false, true} {
			_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: keys, ReadOnly: ro})
			if !errors.Is(err, stoat.ErrKey) || errors.Is(err, stoat.ErrCorrupt) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, content := range testkit.FilesOf(t, fs, testkit.Dir) {
		if content != before[name] {
			t.Errorf("%s has changed", name)
		}
	}
	plain := memfs.New()
	testkit.Must(t, testkit.OpenOn(t, plain, nil).Close())
	for _, ro := range []bool{false, true} {
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: plain, Keys: testkit.Keys, ReadOnly: ro})
		testkit.WantError(t, "keys for a plain database", err, stoat.ErrKey)
	}
	if _, err := plain.Stat(testkit.Dir + "/KEYS"); err == nil {
		t.Error("a plain database got keys")
	}
	testkit.Must(t, fs.Remove(testkit.Dir+"/KEYS"))
	for _, keys := range []stoat.KeyProvider{nil, testkit.Keys} {
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: keys})
		testkit.WantError(t, "without the file KEYS", err, stoat.ErrCorrupt)
	}
}

// The name of KEYS may be lost with those of other files, so that no commit may follow.
func TestEncryption_ARotationThatCannotSyncTheDirectoryReturnsErrFailed(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(memfs.New())
	one, two := testkit.MasterKey("one"), testkit.MasterKey("two")
	keys := new(testkit.TurningKeys)
	keys.Turn(stoat.StaticKeys(one))
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, Keys: keys})
	testkit.Must(t, err)
	fillRecords(t, db, 0, 1)
	keys.Turn(stoat.StaticKeys(two, one))
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir})
	err = db.RotateMasterKey(t.Context())
	testkit.WantError(t, "the rotation", err, stoat.ErrFailed)
	testkit.WantError(t, "the rotation", err, vfs.ErrIO) // why
	testkit.WantError(t, "Sync", db.Sync(), stoat.ErrFailed)
	testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
}

func TestEncryption_MasterKeyRotates(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	one, two, three := testkit.MasterKey("one"), testkit.MasterKey("two"), testkit.MasterKey("three")
	open := func(keys stoat.KeyProvider) (*stoat.DB, error) {
		return stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: keys})
	}
	db, err := open(stoat.StaticKeys(one))
	testkit.Must(t, err)
	fillRecords(t, db, 0, 100)
	testkit.Must(t, db.RotateMasterKey(t.Context()))
	testkit.Must(t, db.Close())
	files := testkit.FilesOf(t, fs, testkit.Dir)

	// Open takes the new current key, and DB.RotateMasterKey does.
	db, err = open(stoat.StaticKeys(two, one))
	testkit.Must(t, err)
	checkRecords(t, db, 100)
	testkit.Must(t, db.Close())
	for name, content := range testkit.FilesOf(t, fs, testkit.Dir) {
		changed := content != files[name]
		if want := name == "KEYS"; changed != want && (strings.HasSuffix(name, ".table") || strings.HasSuffix(name, ".values") || want) {
			t.Errorf("%s: changed is %v", name, changed)
		}
	}
	_, err = open(stoat.StaticKeys(one))
	testkit.WantError(t, "the old key", err, stoat.ErrKey)
	keys := &turningKeys{KeyProvider: stoat.StaticKeys(two)}
	db, err = open(keys)
	testkit.Must(t, err)
	keys.KeyProvider = stoat.StaticKeys(three, two)
	testkit.Must(t, db.RotateMasterKey(t.Context()))
	fillRecords(t, db, 100, 200)
	checkRecords(t, db, 200)
	testkit.Must(t, db.Close())
	_, err = open(stoat.StaticKeys(two))
	testkit.WantError(t, "the old key", err, stoat.ErrKey)
	db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: stoat.StaticKeys(three), ReadOnly: true})
	testkit.Must(t, err)
	checkRecords(t, db, 200)
	testkit.WantError(t, "rotation of a read-only database", db.RotateMasterKey(t.Context()), stoat.ErrReadOnly)
	testkit.Must(t, db.Close())
	testkit.WantError(t, "rotation of a plain database", testkit.OpenMem(t).RotateMasterKey(t.Context()), stoat.ErrKey)
}

// A mounted secret is a chain of symbolic links, one of which changes with the secret.
func TestEncryption_KeyFileMayBeASymbolicLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows demands a privilege for symbolic links")
	}
	t.Parallel()
	dir := t.TempDir()
	write := func(version string, lines ...string) {
		t.Helper()
		testkit.Must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, version, "keys"), []byte(strings.Join(lines, "\n")), 0o600))
		_ = os.Remove(filepath.Join(dir, "data")) // which the first version does not have
		testkit.Must(t, os.Symlink(version, filepath.Join(dir, "data")))
	}
	name := filepath.Join(dir, "keys")
	testkit.Must(t, os.Symlink(filepath.Join("data", "keys"), name))
	one, two := "one "+strings.Repeat("01", stoat.MasterKeySize), "two "+strings.Repeat("02", stoat.MasterKeySize)
	write("1", one)
	o := &stoat.Options{FS: memfs.New(), Keys: stoat.KeyFile(name)}
	db, err := stoat.Open(testkit.Dir, o)
	testkit.Must(t, err)
	write("2", two, one)
	testkit.Must(t, db.RotateMasterKey(t.Context()))
	testkit.Must(t, db.Close())
	write("3", two)
	db, err = stoat.Open(testkit.Dir, o)
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	testkit.Must(t, os.Remove(filepath.Join(dir, "data")))
	_, err = stoat.Open(testkit.Dir, o)
	testkit.WantError(t, "a link to no file", err, stoat.ErrKey)
}

// turningKeys is a provider whose keys change.
type turningKeys struct{ stoat.KeyProvider }

func TestEncryption_DataKeysRotateByAge(t *testing.T) {
	t.Parallel()
	// In a bubble the provider answers before a file loses patience with it.
	synctest.Test(t, func(t *testing.T) {
		fs, clock := memfs.New(), testkit.NewClock()
		set := func(o *stoat.Options) { o.Clock, o.DataKeyAge = clock, time.Hour }
		db := openEncrypted(t, fs, set)
		size := func() int {
			b, err := testkit.ReadFile(fs, testkit.Dir+"/KEYS")
			testkit.Must(t, err)
			return len(b)
		}
		first := size()
		for i := range 4 {
			fillRecords(t, db, 50*i, 50*(i+1))
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			want := first + 48*i
			// Another job may be making the key, and Compact does not wait for it.
			testkit.Eventually(t, "another data key", func() bool { return size() >= want })
			if got := size(); got != want {
				t.Fatalf("KEYS has %d bytes after %d hours, want %d", got, i, want)
			}
			clock.Ms.Add(time.Hour.Milliseconds())
		}
		testkit.Must(t, db.Close())
		db = openEncrypted(t, fs, set)
		checkRecords(t, db, 200)
		testkit.Must(t, db.Close())
	})
}

// Goroutines that read neighbouring values of a file at once each wait for the pages of
// their own values, also when another goroutine is about to decrypt them.
func TestEncryption_ConcurrentScansWaitForDecryptedPages(t *testing.T) {
	t.Parallel()
	const keys, readers = 2000, 4
	fs := memfs.New()
	db := openEncrypted(t, fs, nil)
	testkit.SetKeys(t, db, 0, keys, 3000, 'x')
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	for range dose.Short(5, 20) {
		db := openEncrypted(t, fs, nil) // all pages are encrypted again
		testkit.Must(t, testkit.Concurrently(readers, func(i int, _ *rand.Rand) error {
			return db.View(func(tx stoat.Txn) error {
				for k := i; k < keys; k += readers {
					if _, err := tx.Get(testkit.Key(k)); err != nil {
						return err
					}
				}
				return nil
			})
		}, 1))
		testkit.Must(t, db.Close())
	}
}

// The first Open makes KEYS, and then there is no space for the manifest. So there is no
// database yet.
func TestEncryption_AFailedFirstOpenBindsNoLaterOneToItsKeys(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]stoat.KeyProvider{
		"no key": nil, "another key": stoat.StaticKeys(testkit.MasterKey("two")), "the same key": testkit.Keys,
	} {
		disk := memfs.New()
		faults := faultfs.New(disk)
		faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatManifest, Err: vfs.ErrNoSpace, Forever: true})
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, Keys: testkit.Keys})
		testkit.WantError(t, "open without space for the manifest", err, stoat.ErrNoSpace)
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Keys: keys})
		if err != nil {
			t.Errorf("then with %s: %v", name, err)
			continue
		}
		fillRecords(t, db, 0, 10)
		testkit.Must(t, db.Close())
		db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk.Crash(memfs.KeepNone, nil), Keys: keys, MustExist: true})
		testkit.Must(t, err)
		checkRecords(t, db, 10)
		testkit.Must(t, db.Close())
	}
}

// A database that has lost its manifest can be salvaged with its keys.
func TestEncryption_KEYSStaysWhileThereIsAnyFileOfADatabase(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := openEncrypted(t, fs, nil)
	fillRecords(t, db, 0, 300)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	fillRecords(t, db, 300, 310)
	killed := fs.Clone()
	testkit.Must(t, db.Close())
	for _, kind := range []string{".log", ".table", ".values"} {
		disk := killed.Clone()
		kept := 0
		for name := range testkit.FilesOf(t, disk, testkit.Dir) {
			switch {
			case strings.HasSuffix(name, kind):
				kept++
			case name != "KEYS" && name != "LOCK":
				testkit.Must(t, disk.Remove(disk.Join(testkit.Dir, name)))
			}
		}
		if kept == 0 {
			t.Errorf("the database has no %s", kind)
		}
		before := testkit.FilesOf(t, disk, testkit.Dir)["KEYS"]
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		testkit.WantError(t, "open without keys", err, stoat.ErrKey)
		_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Keys: testkit.Keys})
		testkit.WantError(t, "open with keys", err, stoat.ErrCorrupt)
		if after := testkit.FilesOf(t, disk, testkit.Dir)["KEYS"]; after == "" || after != before {
			t.Errorf("with %d files %s, KEYS has changed", kept, kind)
		}
	}
}

// ErrInvalid promises that nothing was done.
func TestEncryption_AnOpenWithInvalidSettingsLeavesTheMasterKeyAlone(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	one, two := testkit.MasterKey("one"), testkit.MasterKey("two")
	testkit.Must(t, openEncrypted(t, fs, func(o *stoat.Options) {
		o.Keys, o.ValueThreshold, o.LargeValueThreshold = stoat.StaticKeys(one), 1000, 5000
	}).Close())
	_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: stoat.StaticKeys(two, one), ValueThreshold: 6000})
	testkit.WantError(t, "settings that contradict the stored ones", err, stoat.ErrInvalid)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Keys: stoat.StaticKeys(one)})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
}
