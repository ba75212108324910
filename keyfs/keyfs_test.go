package keyfs_test

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/keyfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// set gives keys values of the form "content of KEY".
func set(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, keys ...string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, k := range keys {
			if err := tx.In(ks).Set([]byte(k), []byte("content of "+k)); err != nil {
				return err
			}
		}
		return nil
	}))
}

// names returns the names of a directory in one line, those of directories with a slash.
func names(t *testing.T, fsys fs.FS, dir string) string {
	t.Helper()
	entries, err := fs.ReadDir(fsys, dir)
	testkit.Must(t, err)
	var all []string
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += "/"
		}
		all = append(all, name)
	}
	return strings.Join(all, " ")
}

func TestFS_PassesTheTestOfTheStandardLibrary(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks, err := db.Keyspace("files", nil)
	testkit.Must(t, err)
	var keys, expected []string
	for i := range 50 {
		keys = append(keys, fmt.Sprintf("web/%d/page%d.html", i%7, i), fmt.Sprintf("web/top%d", i))
	}
	keys = append(keys, "web/deep/er/and/deeper", "web/deep-er", "web/deep", "web/deep.txt", "web/empty")
	for _, k := range keys {
		if k != "web/deep" {
			expected = append(expected, strings.TrimPrefix(k, "web/"))
		}
	}
	set(t, db, ks, keys...)
	set(t, db, ks, "other", "web", "wec/x")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		// A long value lies in a value file.
		return errors.Join(tx.In(ks).Set([]byte("web/long"), make([]byte, 300_000)), tx.In(ks).Set([]byte("web/empty"), nil))
	}))
	for _, reopened := range []bool{false, true} {
		if reopened {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		testkit.Must(t, fstest.TestFS(keyfs.New(db, keyfs.Options{Prefix: "web/", Keyspace: ks}), append(expected, "long")...))
	}
	if n := db.Stats().Readers; n > 1 {
		t.Errorf("%d snapshots are left open", n)
	}
}

func TestFS_LeavesOutWhatIsNoPath(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	set(t, db, nil, "p/", "p//a", "p/.", "p/../up", "p/a", "p/b/", "p/c//x", "p/d/./x", "p/\xff", "p/e\\f", "p/a/", "p/g", "p/g/h")
	fsys := keyfs.New(db, keyfs.Options{Prefix: "p/"})
	if got := names(t, fsys, "."); got != "a g/" {
		t.Errorf("the directory has %q", got)
	}
	testkit.Must(t, fstest.TestFS(fsys, "a", "g/h"))
	for _, name := range []string{"b", "c", "d", "c//x", "../up", "missing", "g/h/i", "e\\f", strings.Repeat("x", stoat.MaxKeySize)} {
		_, err := fsys.Open(name)
		_, statErr := fsys.Stat(name)
		_, readErr := fsys.ReadFile(name)
		for _, err := range []error{err, statErr, readErr} {
			if want := fs.ErrNotExist; fs.ValidPath(name) && !errors.Is(err, want) || !fs.ValidPath(name) && !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%.20q: %v", name, err)
			}
		}
	}
	if v, err := fsys.ReadFile("a"); string(v) != "content of p/a" || err != nil {
		t.Errorf("a has %q, %v", v, err)
	}
	if _, err := fsys.ReadFile("g"); err == nil {
		t.Error("ReadFile of a directory succeeds")
	}
	if _, err := fsys.ReadDir("a"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadDir of a file: %v", err)
	}
}

func TestFS_OfNothingHasAnEmptyRoot(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, prefix := range []string{"", "p/"} {
		fsys := keyfs.New(db, keyfs.Options{Prefix: prefix})
		if got := names(t, fsys, "."); got != "" {
			t.Errorf("the root has %q", got)
		}
		testkit.Must(t, fstest.TestFS(fsys))
	}
}

// An open file keeps its content. A file system of a snapshot keeps everything.
func TestFS_ReadsOneSnapshotAtATime(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	set(t, db, nil, "a", "b")
	s, err := db.Snapshot(stoat.SnapshotOptions{})
	testkit.Must(t, err)
	before, now := keyfs.New(db, keyfs.Options{Snapshot: s}), keyfs.New(db, keyfs.Options{})
	f, err := now.Open("a")
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(nil, nil) }))
	set(t, db, nil, "c")
	content, err := io.ReadAll(f)
	if string(content) != "content of a" || err != nil {
		t.Errorf("the open file has %q, %v", content, err)
	}
	testkit.Must(t, f.Close())
	_, err = f.Read(make([]byte, 1))
	testkit.WantError(t, "Read after Close", err, fs.ErrClosed)
	testkit.WantError(t, "a second Close", f.Close(), fs.ErrClosed)
	if a, b := names(t, before, "."), names(t, now, "."); a != "a b" || b != "c" {
		t.Errorf("the snapshot has %q, the database %q", a, b)
	}
	testkit.Must(t, fstest.TestFS(before, "a", "b"))
	s.Close()
	_, err = before.ReadDir(".")
	testkit.WantError(t, "ReadDir after the snapshot", err, stoat.ErrTxnDone)
}

func TestFS_ServesHTTPAndTemplates(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	set(t, db, nil, "site/index.html", "site/css/a.css", "tmpl/one.tmpl", "tmpl/two.tmpl")
	server := httptest.NewServer(http.FileServerFS(keyfs.New(db, keyfs.Options{Prefix: "site/"})))
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/css/a.css", nil)
	testkit.Must(t, err)
	request.Header.Set("Range", "bytes=8-13")
	response, err := server.Client().Do(request)
	testkit.Must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if string(body) != "of sit" || response.StatusCode != http.StatusPartialContent {
		t.Errorf("status %d, body %q, %v", response.StatusCode, body, err)
	}
	all, err := template.ParseFS(keyfs.New(db, keyfs.Options{}), "tmpl/*.tmpl")
	testkit.Must(t, err)
	var out strings.Builder
	testkit.Must(t, all.ExecuteTemplate(&out, "two.tmpl", nil))
	if out.String() != "content of tmpl/two.tmpl" {
		t.Errorf("the template is %q", out.String())
	}
}

func Example() {
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New()})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	err = db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte("mail/hello.txt"), []byte("Hello {{.}}\n"))
	})
	if err != nil {
		panic(err)
	}
	files := keyfs.New(db, keyfs.Options{Prefix: "mail/"})
	t := template.Must(template.ParseFS(files, "*.txt"))
	var out strings.Builder
	if err := t.Execute(&out, "Ann"); err != nil {
		panic(err)
	}
	fmt.Print(out.String())
	// Output: Hello Ann
}
