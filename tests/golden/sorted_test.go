package golden

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// sortedFiles are the files of sorted entries of each format version that was ever
// released. They must be read and ingested for ever. A file is made as that of a feature.
var sortedFiles = map[string]stoat.Compression{
	"v1-none.sorted": stoat.CompressionNone, "v1-fast.sorted": stoat.CompressionFast, "v1-small.sorted": stoat.CompressionSmall,
}

// sortedEntry returns entry i of each of them. The last entry has chunks.
func sortedEntry(i int, with stoat.Compression) sorted.Entry {
	sizes := []int{0, 1, 100, 3000, 1_200_000}
	if with == stoat.CompressionNone {
		sizes[4] = 5000 // the file stays small
	}
	e := sorted.Entry{Key: testkit.Key(i), UserMeta: byte(i), Value: bytes.Repeat(fmt.Appendf(nil, "%d", i), sizes[i])}
	if i%2 == 1 {
		e.ExpiresAt = goldenLate
	}
	return e
}

const sortedEntries = 5

func TestGolden_SortedFilesOfEveryVersionAreIngested(t *testing.T) {
	t.Parallel()
	for name, with := range sortedFiles {
		file := filepath.Join("testdata", name)
		if *makeGolden == name {
			makeSorted(t, file, with)
		}
		content, err := os.ReadFile(file)
		testkit.Must(t, err)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkSortedReader(t, content, with)
			checkSortedIngest(t, content, with)
		})
	}
	files, err := filepath.Glob("testdata/*.sorted")
	testkit.Must(t, err)
	if len(files) != len(sortedFiles) {
		t.Errorf("there are %d files of sorted entries, want %d", len(files), len(sortedFiles))
	}
}

func makeSorted(t *testing.T, file string, with stoat.Compression) {
	t.Helper()
	var out bytes.Buffer
	w, err := sorted.NewWriter(&out, sorted.Options{Compression: with})
	testkit.Must(t, err)
	for i := range sortedEntries {
		testkit.Must(t, w.Add(sortedEntry(i, with)))
	}
	testkit.Must(t, w.Finish())
	testkit.Must(t, os.WriteFile(file, out.Bytes(), 0o644))
	t.Logf("%s has %d bytes", file, out.Len())
}

func checkSortedReader(t *testing.T, content []byte, with stoat.Compression) {
	r, err := sorted.NewReader(bytes.NewReader(content))
	testkit.Must(t, err)
	for i := range sortedEntries {
		got, err := r.Next()
		testkit.Must(t, err)
		want := sortedEntry(i, with)
		if !bytes.Equal(got.Key, want.Key) || !bytes.Equal(got.Value, want.Value) || !got.ExpiresAt.Equal(want.ExpiresAt) || got.UserMeta != want.UserMeta {
			t.Errorf("entry %d is %q with %d bytes until %v, user %d", i, got.Key, len(got.Value), got.ExpiresAt, got.UserMeta)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the last entry: %v", err)
	}
}

func checkSortedIngest(t *testing.T, content []byte, with stoat.Compression) {
	disk := memfs.New()
	testkit.Must(t, testkit.WriteFile(disk, "/file", content))
	db, err := stoat.Open("/db", goldenOptions(disk))
	testkit.Must(t, err)
	done, err := sorted.Ingest(t.Context(), db, disk, []string{"/file"}, stoat.IngestOptions{})
	testkit.Must(t, err)
	want := &goldenWriter{items: map[string]goldenItem{}, last: 1}
	for i := range sortedEntries {
		e := sortedEntry(i, with)
		want.items[string(e.Key)] = goldenItem{e.Value, e.UserMeta, e.ExpiresAt, 1}
	}
	if done.Entries != sortedEntries {
		t.Errorf("%d entries were ingested, want %d", done.Entries, sortedEntries)
	}
	wantGolden(t, db, want)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}
