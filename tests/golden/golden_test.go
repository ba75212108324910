package golden

import (
	"archive/zip"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The files of testdata hold databases of each format version that was
// ever released, as they are on the disk: one that was closed and one whose
// process was killed. They must open for ever. A change that needs a new one
// needs a new format version, too.
//
// Zip files, because logs and manifests are written to their full size ahead:
// they are zeros for the most part.

// makeGolden writes one file of testdata, that of a feature or of the current format
// version:
//
//	go test ./tests/golden -args -stoat.make-golden=settings
//	go test ./tests/golden -args -stoat.make-golden=v1
var makeGolden = flag.String("stoat.make-golden", "", "write the file with this `name` in testdata")

// A goldenItem is what a golden database must have under a key.
type goldenItem struct {
	value   []byte
	user    byte
	expires time.Time
	version uint64
}

// A goldenWriter commits to a database and keeps account of what it must hold.
// What it does is a part of the format of these tests: it must not change, but
// for what a later format adds behind it.
type goldenWriter struct {
	t     *testing.T
	db    *stoat.DB // nil to keep account only
	items map[string]goldenItem
	last  uint64
}

func (w *goldenWriter) commit(write func(tx stoat.Txn) error) {
	w.last++
	if w.db != nil {
		testkit.Must(w.t, w.db.Update(write))
	}
}

// set commits one key.
func (w *goldenWriter) set(key string, size int, user byte, expires time.Time) {
	value := bytes.Repeat([]byte(fmt.Sprintf("%s/%d ", key[:1], w.last)), size/4+1)[:size]
	options := []stoat.SetOption{stoat.UserMeta(user)}
	if !expires.IsZero() {
		options = append(options, stoat.ExpiresAt(expires))
	}
	w.commit(func(tx stoat.Txn) error { return tx.Set([]byte(key), value, options...) })
	w.items[key] = goldenItem{value, user, expires, w.last}
	if !expires.IsZero() && expires.Before(goldenNow) {
		delete(w.items, key)
	}
}

func (w *goldenWriter) del(key string) {
	w.commit(func(tx stoat.Txn) error { return tx.Delete([]byte(key)) })
	delete(w.items, key)
}

// delRange deletes the keys of [lo, hi).
func (w *goldenWriter) delRange(lo, hi string) {
	w.commit(func(tx stoat.Txn) error { return tx.DeleteRange([]byte(lo), []byte(hi)) })
	for key := range w.items {
		if lo <= key && key < hi {
			delete(w.items, key)
		}
	}
}

// setApart commits so many large values together that they are written straight
// to value files, and one that is given as a reader.
func (w *goldenWriter) setApart(prefix string, n int) {
	values := map[string][]byte{}
	for i := range n {
		values[fmt.Sprintf("%s-%03d", prefix, i)] = bytes.Repeat(fmt.Appendf(nil, "%s %d ", prefix, i), 3000)
	}
	stream, read := prefix+"-stream", bytes.Repeat([]byte(prefix), 30_000)
	w.commit(func(tx stoat.Txn) error {
		for key, value := range values {
			if err := tx.Set([]byte(key), value); err != nil {
				return err
			}
		}
		return tx.SetReader([]byte(stream), bytes.NewReader(read), stoat.UserMeta(7))
	})
	for key, value := range values {
		w.items[key] = goldenItem{value: value, version: w.last}
	}
	w.items[stream] = goldenItem{value: read, user: 7, version: w.last}
}

func (w *goldenWriter) compact() { w.compactFrom(nil) }

// flush makes tables of what is in memory: there are no keys to compact.
func (w *goldenWriter) flush() { w.compactFrom([]byte("~")) }

func (w *goldenWriter) compactFrom(lower []byte) {
	if w.db != nil {
		testkit.Must(w.t, w.db.Compact(w.t.Context(), stoat.CompactOptions{Lower: lower}))
	}
}

var (
	goldenNow   = time.UnixMilli(testkit.ClockStart + 1000)
	goldenSoon  = time.UnixMilli(testkit.ClockStart + 500)
	goldenLate  = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
	goldenSizes = []int{0, 1, 100, 511, 512, 3000, 20_000}
)

// run makes tables in the last level, value files, one of them rewritten, others
// written by commits, then several runs of tables above, and a log. Range
// deletions are in the runs and in the log.
func (w *goldenWriter) run() {
	for i := range 70 {
		expires := time.Time{}
		switch {
		case i%5 == 0:
			expires = goldenLate
		case i%11 == 0:
			expires = goldenSoon
		}
		w.set(fmt.Sprintf("key-%03d", i), goldenSizes[i%len(goldenSizes)], byte(i), expires)
	}
	w.compact()
	for i := 0; i < 70; i += 3 {
		w.set(fmt.Sprintf("key-%03d", i), goldenSizes[(i+3)%len(goldenSizes)], byte(i+1), time.Time{})
	}
	w.compact()
	for i := 0; i < 70; i += 4 {
		w.del(fmt.Sprintf("key-%03d", i))
	}
	w.setApart("apart", 20)
	w.flush()
	w.delRange("key-020", "key-030")
	w.delRange("apart-003", "apart-005")
	w.set("key-025", 600, 3, time.Time{})
	w.flush()
	for i := range 40 {
		w.set(fmt.Sprintf("more-%03d\x00\xff", i), 4000, 0, time.Time{})
	}
	w.set(string(bytes.Repeat([]byte("k"), stoat.MaxKeySize)), 5, 1, time.Time{})
	w.commit(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("both-1"), []byte("1")), tx.Delete([]byte("more-000\x00\xff")), tx.Set([]byte("both-2"), nil))
	})
	delete(w.items, "more-000\x00\xff")
	w.items["both-1"] = goldenItem{value: []byte("1"), version: w.last}
	w.items["both-2"] = goldenItem{version: w.last}
	w.setApart("logged", 15)
	w.delRange("logged-010", "logged-012")
	w.delRange("key-060", "key-065")
	w.set("key-062", 100, 4, time.Time{})
}

func goldenOptions(fs vfs.FS) *stoat.Options {
	c := testkit.NewClock()
	c.Ms.Store(goldenNow.UnixMilli())
	return &stoat.Options{FS: fs, Clock: c, MemtableSize: 1 << 20, MergeFunctions: []stoat.MergeFunction{merge.Append},
		Filters: []stoat.Filter{goldenFilter{}}}
}

func TestGolden_DatabasesOfEveryFormatVersionOpen(t *testing.T) {
	t.Parallel()
	current := fmt.Sprintf("v%d", manifest.FormatVersion)
	if *makeGolden == current {
		writeGolden(t, "testdata/"+current+".zip")
	}
	files, err := filepath.Glob("testdata/v*.zip")
	testkit.Must(t, err)
	if len(files) != manifest.FormatVersion {
		t.Errorf("%d files for %d format versions", len(files), manifest.FormatVersion)
	}
	for _, file := range files {
		disk := readGolden(t, file)
		for _, state := range []string{"closed", "killed"} {
			t.Run(filepath.Base(file)+" "+state, func(t *testing.T) {
				t.Parallel()
				checkGolden(t, disk.Clone(), "/"+state)
			})
		}
	}
}

// The databases of the first format version are older than stored settings.
func TestGolden_UpgradeStoresTheSettingsOfAnOldDatabase(t *testing.T) {
	t.Parallel()
	disk := readGolden(t, "testdata/v1.zip")
	for _, storing := range []bool{true, false} {
		r, err := stoat.Upgrade("/killed", goldenOptions(disk))
		testkit.Must(t, err)
		if r.StoredSettings != storing || r.Was.Version != 1 || r.Now.Version != manifest.FormatVersion {
			t.Errorf("%+v, want stored settings: %v", r, storing)
		}
	}
	checkGolden(t, disk, "/killed")
}

// checkGolden compares a database with what it must hold, before and after it
// is used.
func checkGolden(t *testing.T, disk *memfs.FS, dir string) {
	want := goldenWriter{t: t, items: make(map[string]goldenItem)}
	want.run()
	for _, readOnly := range []bool{true, false} {
		opts := goldenOptions(disk)
		opts.ReadOnly = readOnly
		db, err := stoat.Open(dir, opts)
		testkit.Must(t, err)
		wantGolden(t, db, &want)
		testkit.MustBeSound(t, db)
		testkit.Must(t, db.Close())
	}
	db, err := stoat.Open(dir, goldenOptions(disk))
	testkit.Must(t, err)
	want.db = db
	want.set("key-000", 1000, 9, time.Time{})
	want.del("more-001\x00\xff")
	want.delRange("apart-000", "apart-002")
	want.compact()
	wantGolden(t, db, &want)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func wantGolden(t *testing.T, db *stoat.DB, w *goldenWriter) {
	t.Helper()
	if got := db.Stats().Version; got != w.last {
		t.Errorf("the database is at version %d, want %d", got, w.last)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		seen := 0
		it := tx.Iterator(stoat.IterOptions{})
		defer it.Close()
		for ; it.Next(); seen++ {
			item := it.Item()
			want, ok := w.items[string(item.Key())]
			if !ok {
				t.Errorf("there is a key %.20q", item.Key())
			}
			if value, err := item.Value(); err != nil || !bytes.Equal(value, want.value) || item.UserMeta() != want.user ||
				!item.ExpiresAt().Equal(want.expires) || item.Version() != want.version {
				t.Errorf("key %.20q: %d bytes, meta %d, expiry %v, version %d, error %v, want %d, %d, %v, %d", item.Key(),
					len(value), item.UserMeta(), item.ExpiresAt(), item.Version(), err, len(want.value), want.user, want.expires, want.version)
			}
			if got, err := tx.Get(item.Key()); err != nil || !bytes.Equal(got, want.value) {
				t.Errorf("get of key %.20q: %d bytes, error %v", item.Key(), len(got), err)
			}
		}
		if seen != len(w.items) {
			t.Errorf("%d keys, want %d", seen, len(w.items))
		}
		return it.Err()
	}))
}

// readGolden returns a disk with the directories of a golden file.
func readGolden(t *testing.T, file string) *memfs.FS {
	t.Helper()
	disk := memfs.New()
	z, err := zip.OpenReader(file)
	testkit.Must(t, err)
	defer z.Close()
	for _, f := range z.File {
		testkit.Must(t, disk.MkdirAll("/"+path.Dir(f.Name)))
		r, err := f.Open()
		testkit.Must(t, err)
		content, err := io.ReadAll(r)
		testkit.Must(t, err)
		testkit.Must(t, testkit.WriteFile(disk, "/"+f.Name, content))
	}
	return disk
}

// writeGolden makes the golden file of the current format version.
func writeGolden(t *testing.T, file string) {
	t.Helper()
	disk := memfs.New()
	db, err := stoat.Open("/db", goldenOptions(disk))
	testkit.Must(t, err)
	w := goldenWriter{t: t, db: db, items: make(map[string]goldenItem)}
	w.run()
	killed, s := disk.Clone(), db.Stats()
	testkit.Must(t, db.Close())
	if s.Levels[0].Tables < 2 || s.Levels[len(s.Levels)-1].Tables == 0 || s.ApartBytes == 0 ||
		s.Collections == 0 || s.MemtableEntries == 0 {
		t.Errorf("not all kinds of content are there: %+v", s)
	}
	t.Logf("levels %+v, %d value files, %d collections, %d entries in memory", s.Levels, s.Values, s.Collections, s.MemtableEntries)

	writeZip(t, file, disk, killed)
}

// writeZip writes the files of a database that was closed, and of one whose process
// was killed.
func writeZip(t *testing.T, file string, closed, killed *memfs.FS) {
	t.Helper()
	files := map[string]string{}
	for state, from := range map[string]*memfs.FS{"closed": closed, "killed": killed} {
		for name, content := range testkit.FilesOf(t, from, "/db") {
			files[state+"/"+name] = content
		}
	}
	zipFiles(t, file, files)
}

// zipFiles writes a zip file.
func zipFiles(t *testing.T, file string, files map[string]string) {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, content := range files {
		f, err := z.Create(name)
		testkit.Must(t, err)
		_, err = io.WriteString(f, content)
		testkit.Must(t, err)
	}
	testkit.Must(t, z.Close())
	testkit.Must(t, os.WriteFile(file, out.Bytes(), 0o644))
	t.Logf("%s has %d bytes", file, out.Len())
}
