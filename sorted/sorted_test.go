package sorted_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/sorted"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// fileOf returns a file of entries.
func fileOf(t *testing.T, entries ...sorted.Entry) []byte {
	t.Helper()
	var to bytes.Buffer
	w, err := sorted.NewWriter(&to, sorted.Options{})
	testkit.Must(t, err)
	for _, e := range entries {
		testkit.Must(t, w.Add(e))
	}
	testkit.Must(t, w.Finish())
	return to.Bytes()
}

// entry returns an entry without options.
func entry(key, value string) sorted.Entry {
	return sorted.Entry{Key: []byte(key), Value: []byte(value)}
}

// diskOf returns a disk with files named 0, 1 and so on, and their names.
func diskOf(t *testing.T, files ...[]byte) (*memfs.FS, []string) {
	t.Helper()
	disk := memfs.New()
	var names []string
	for i, b := range files {
		names = append(names, fmt.Sprint("/", i))
		testkit.Must(t, testkit.WriteFile(disk, names[i], b))
	}
	return disk, names
}

func TestSorted_AReaderReturnsWhatWasWritten(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 100_000)
	want := []sorted.Entry{
		{Key: []byte("\x00"), Value: nil},
		{Key: []byte("a"), Value: []byte("value"), UserMeta: 7},
		{Key: []byte("a\x00"), Value: []byte(large), ExpiresAt: time.UnixMilli(1_800_000_000_123)},
		{Key: []byte("a\x00\x00"), Value: []byte(large[:512<<10])},
		{Key: bytes.Repeat([]byte{0xff}, stoat.MaxKeySize), Value: []byte("x"), ExpiresAt: time.UnixMilli(1)},
	}
	file := fileOf(t, want...)
	r, err := sorted.NewReader(iotest.OneByteReader(bytes.NewReader(file)))
	testkit.Must(t, err)
	for i, w := range want {
		e, err := r.Next()
		testkit.Must(t, err)
		if !bytes.Equal(e.Key, w.Key) || !bytes.Equal(e.Value, w.Value) || e.UserMeta != w.UserMeta || !e.ExpiresAt.Equal(w.ExpiresAt) {
			t.Errorf("entry %d is %.80q, %d bytes, %d, %v", i, e.Key, len(e.Value), e.UserMeta, e.ExpiresAt)
		}
	}
	for range 2 {
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("after the last entry: %v", err)
		}
	}
	info, err := sorted.Verify(t.Context(), bytes.NewReader(file))
	if err != nil || info.Entries != 5 || string(info.First) != "\x00" || len(info.Last) != stoat.MaxKeySize {
		t.Errorf("Verify returns %d entries: %v", info.Entries, err)
	}
}

func TestSorted_TimesOfExpiryAreThoseOfTxnSet(t *testing.T) {
	t.Parallel()
	never := time.Unix(1<<63-62135596801, 999999999) // the last time.Time
	file := fileOf(t, sorted.Entry{Key: []byte("a"), ExpiresAt: never},
		sorted.Entry{Key: []byte("b"), ExpiresAt: time.Unix(1_800_000_000, 1)},
		sorted.Entry{Key: []byte("c"), ExpiresAt: time.Unix(-1, 0)})
	r, err := sorted.NewReader(bytes.NewReader(file))
	testkit.Must(t, err)
	for _, want := range []int64{math.MaxInt64, 1_800_000_000_001, 1} {
		e, err := r.Next()
		testkit.Must(t, err)
		if got := e.ExpiresAt.UnixMilli(); got != want {
			t.Errorf("%s expires at %d, want %d", e.Key, got, want)
		}
	}
}

func TestSorted_RefusesWhatNoDatabaseTakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		entry sorted.Entry
		want  error
	}{
		"an empty key":   {entry("", "x"), stoat.ErrEmptyKey},
		"a long key":     {entry(strings.Repeat("x", stoat.MaxKeySize+1), "x"), stoat.ErrKeyTooLarge},
		"a repeated key": {entry("key", "x"), stoat.ErrInvalid},
		"a lesser key":   {entry("kex", "x"), stoat.ErrInvalid},
	} {
		w, err := sorted.NewWriter(io.Discard, sorted.Options{})
		testkit.Must(t, err)
		testkit.Must(t, w.Add(entry("key", "value")))
		testkit.WantError(t, name, w.Add(c.entry), c.want)
		testkit.WantError(t, name+", then another", w.Add(entry("z", "x")), c.want)
		testkit.WantError(t, name+", then Finish", w.Finish(), c.want)
	}
	w, err := sorted.NewWriter(io.Discard, sorted.Options{})
	testkit.Must(t, err)
	testkit.Must(t, w.Finish())
	testkit.WantError(t, "Add after Finish", w.Add(entry("z", "x")), stoat.ErrInvalid)
	_, err = sorted.NewWriter(nil, sorted.Options{})
	testkit.WantError(t, "no writer", err, stoat.ErrInvalid)
	_, err = sorted.NewReader(nil)
	testkit.WantError(t, "no reader", err, stoat.ErrInvalid)
	_, err = sorted.Verify(t.Context(), nil)
	testkit.WantError(t, "Verify without a reader", err, stoat.ErrInvalid)
	var order *stoat.KeyOrderError
	w, err = sorted.NewWriter(io.Discard, sorted.Options{})
	testkit.Must(t, err)
	testkit.Must(t, w.Add(entry("b", "")))
	if err := w.Add(entry("a", "")); !errors.As(err, &order) || order.Position != 1 || string(order.Previous) != "b" {
		t.Errorf("a lesser key: %v", err)
	}
}

func TestIngest_TakesFilesInAnyOrderAsOneCommit(t *testing.T) {
	t.Parallel()
	for _, encrypted := range []bool{false, true} {
		live := memfs.New()
		db := testkit.OpenOn(t, live, func(o *stoat.Options) { o.Keys = testkit.KeysIf(encrypted) })
		testkit.SetKeys(t, db, 0, 10, 10, 'x')
		disk, names := diskOf(t,
			fileOf(t, entry("key-000005", "new"), entry("m", testkit.Filled(700))),
			fileOf(t), // no entry at all
			fileOf(t, entry("a", "1"), sorted.Entry{Key: []byte("b"), Value: []byte("2"), UserMeta: 9}),
			fileOf(t, entry("z", "3")))
		done, err := sorted.Ingest(t.Context(), db, disk, names, stoat.IngestOptions{})
		testkit.Must(t, err)
		if done.Entries != 5 || done.Version == 0 {
			t.Errorf("Ingest returns %+v", done)
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for key, want := range map[string]string{"a": "1", "b": "2", "key-000005": "new", "m": testkit.Filled(700), "z": "3"} {
				it, err := tx.GetItem([]byte(key))
				if err != nil {
					return err
				}
				got, err := it.Value()
				if err != nil || string(got) != want || it.Version() != done.Version || key == "b" && it.UserMeta() != 9 {
					t.Errorf("%s is %.20q of version %d: %v", key, got, it.Version(), err)
				}
			}
			return nil
		}))
		if encrypted {
			testkit.Must(t, testkit.NoSentinel(live, testkit.Dir))
		}
		testkit.MustBeSound(t, db)
		testkit.Must(t, db.Close())
	}
}

func TestIngest_ExpiryOfTheEntryComesFirst(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.Clock = clock })
	defer func() { testkit.Must(t, db.Close()) }()
	own := time.UnixMilli(clock.Ms.Load() + 5000)
	disk, names := diskOf(t, fileOf(t, entry("a", "1"), sorted.Entry{Key: []byte("b"), ExpiresAt: own}))
	_, err := sorted.Ingest(t.Context(), db, disk, names, stoat.IngestOptions{Options: []stoat.SetOption{stoat.TTL(time.Hour)}})
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for key, want := range map[string]time.Time{"a": clock.Now().Add(time.Hour), "b": own} {
			it, err := tx.GetItem([]byte(key))
			if err != nil {
				return err
			}
			if !it.ExpiresAt().Equal(want) {
				t.Errorf("%s expires at %v, want %v", key, it.ExpiresAt(), want)
			}
		}
		return nil
	}))
}

func TestIngest_RefusesFilesThatDoNotFit(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	good := fileOf(t, entry("b", "1"), entry("d", "2"), entry("f", "3"))
	for name, c := range map[string]struct {
		files [][]byte
		want  error
		says  string
	}{
		"one inside another":    {[][]byte{good, fileOf(t, entry("c", "x"))}, sorted.ErrOverlap, "/0 has the key \"d\", and /1 begins with \"c\""},
		"a common key":          {[][]byte{good, fileOf(t, entry("f", "x"), entry("g", "x"))}, sorted.ErrOverlap, "overlap"},
		"the same file twice":   {[][]byte{good, good}, sorted.ErrOverlap, "overlap"},
		"half a file":           {[][]byte{good[:len(good)/2]}, stoat.ErrCorrupt, "/0"},
		"a file without end":    {[][]byte{good[:len(good)-40]}, stoat.ErrCorrupt, "/0"},
		"a second one is short": {[][]byte{fileOf(t, entry("a", "1")), good[:len(good)-1]}, stoat.ErrCorrupt, "/1"},
		"a byte too many":       {[][]byte{append(bytes.Clone(good), 0)}, stoat.ErrCorrupt, "/0"},
		"two files in one":      {[][]byte{append(bytes.Clone(good), good...)}, stoat.ErrCorrupt, "/0"},
		"an empty file":         {[][]byte{{}}, stoat.ErrCorrupt, "/0"},
		"another kind of file":  {[][]byte{[]byte("stoatBAK\x01\x00\x00\x00\x00\x00\x00\x00")}, stoat.ErrCorrupt, "type of the file"},
		"a later format":        {[][]byte{[]byte("stoatSRT\x02\x00\x00\x00\x00\x00\x00\x00")}, stoat.ErrVersion, "/0"},
	} {
		disk, names := diskOf(t, c.files...)
		_, err := sorted.Ingest(t.Context(), db, disk, names, stoat.IngestOptions{})
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	disk, names := diskOf(t, good)
	_, err := sorted.Ingest(t.Context(), db, disk, append(names, "/none"), stoat.IngestOptions{})
	testkit.WantError(t, "a missing file", err, fs.ErrNotExist)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = sorted.Ingest(done, db, disk, names, stoat.IngestOptions{})
	testkit.WantError(t, "a canceled context", err, context.Canceled)
	_, err = sorted.Verify(done, bytes.NewReader(good))
	testkit.Must(t, err) // it ends before it looks
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		items, err := testkit.ScanAll(tx, stoat.IterOptions{})
		if len(items) != 0 {
			t.Errorf("refused files left %d keys", len(items))
		}
		return err
	}))
	none, err := sorted.Ingest(t.Context(), db, disk, nil, stoat.IngestOptions{})
	if err != nil || none.Version != 0 {
		t.Errorf("no files: %+v, %v", none, err)
	}
}

func FuzzReader(f *testing.F) {
	var to bytes.Buffer
	w, err := sorted.NewWriter(&to, sorted.Options{})
	if err == nil {
		err = errors.Join(w.Add(entry("a", "1")), w.Add(sorted.Entry{Key: []byte("ab"), Value: make([]byte, 300), UserMeta: 1, ExpiresAt: time.UnixMilli(5)}), w.Finish())
	}
	if err != nil {
		f.Fatal(err)
	}
	f.Add(to.Bytes())
	f.Add(to.Bytes()[:to.Len()-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := sorted.NewReader(bytes.NewReader(b))
		var all []sorted.Entry
		for err == nil {
			var e sorted.Entry
			if e, err = r.Next(); err == nil {
				all = append(all, sorted.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value), UserMeta: e.UserMeta, ExpiresAt: e.ExpiresAt})
			}
		}
		if err != io.EOF {
			if !errors.Is(err, stoat.ErrCorrupt) && !errors.Is(err, stoat.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		fileOf(t, all...) // what was read can be written
	})
}
