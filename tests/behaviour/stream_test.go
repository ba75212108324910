package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// sameBytes reports where two readers first differ.
func sameBytes(a, b io.Reader) error {
	bufA, bufB := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errA := io.ReadFull(a, bufA)
		m, errB := io.ReadFull(b, bufB)
		if n != m || !bytes.Equal(bufA[:n], bufB[:m]) {
			return errors.New("the bytes differ")
		}
		if errA != nil || errB != nil {
			if errors.Is(errA, io.EOF) == errors.Is(errB, io.EOF) {
				return nil
			}
			return errors.Join(errA, errB)
		}
	}
}

func checkStream(t *testing.T, tx stoat.Txn, key string, n int64) {
	t.Helper()
	item, err := tx.GetItem([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if item.ValueSize() != n {
		t.Fatalf("%s: %d bytes, want %d", key, item.ValueSize(), n)
	}
	r, err := item.Reader()
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBytes(r, testkit.Patterned(n)); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	v, err := tx.Get([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBytes(bytes.NewReader(v), testkit.Patterned(n)); err != nil {
		t.Fatalf("%s, in one: %v", key, err)
	}
}

func TestStream_ValuesAreReadDuringAndAfterTheTransactionAndAfterAPowerCut(t *testing.T) {
	t.Parallel()
	sizes := map[string]int64{"a": 0, "b": 1, "c": 100, "d": 100_000, "e": 5<<20 + 17}
	disk := memfs.New()
	opts := &stoat.Options{FS: disk}
	db, err := stoat.Open(testkit.Dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx stoat.Txn) error {
		for key, n := range sizes {
			if err := tx.SetReader([]byte(key), testkit.Patterned(n), stoat.UserMeta(7)); err != nil {
				return err
			}
		}
		for key, n := range sizes {
			checkStream(t, tx, key, n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	crashed := disk.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 2)))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FS = crashed
	if db, err = stoat.Open(testkit.Dir, opts); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.View(func(tx stoat.Txn) error {
			for key, n := range sizes {
				checkStream(t, tx, key, n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Compact(t.Context(), stoat.CompactOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestStream_UncommittedValueLeavesNothing(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.SetReader([]byte("k"), io.MultiReader(testkit.Patterned(1<<20), failing{broken})); !errors.Is(err, broken) {
		t.Fatalf("a reader that fails: %v", err)
	}
	if _, err := tx.Get([]byte("k")); !errors.Is(err, stoat.ErrNotFound) {
		t.Fatal(err)
	}
	if err := tx.SetReader([]byte("k"), testkit.Patterned(1<<20)); err != nil {
		t.Fatal(err)
	}
	checkStream(t, tx, "k", 1<<20)
	tx.Discard()
	if n := valueFiles(t, fs); n != 0 {
		t.Errorf("%d value files are left", n)
	}
	if err := db.View(func(tx stoat.Txn) error {
		return tx.SetReader([]byte("k"), testkit.Patterned(1))
	}); !errors.Is(err, stoat.ErrReadOnly) {
		t.Fatalf("SetReader in a View: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

type panickingReader struct{ with any }

func (r panickingReader) Read([]byte) (int, error) { panic(r.with) }

func TestStream_PanickingReaderLeavesNoFile(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	faults := faultfs.New(fs)
	var open atomic.Int64 // value files
	faults.Observe(func(op vfs.Op) {
		switch {
		case op.Category != vfs.CatValue:
		case op.Kind == vfs.OpCreate:
			open.Add(1)
		case op.Kind == vfs.OpClose:
			open.Add(-1)
		}
	})
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	tx, err := db.Begin(stoat.ReadWrite)
	testkit.Must(t, err)
	func() {
		defer func() {
			if p := recover(); p != "on purpose" {
				t.Errorf("the caller of SetReader recovered %v", p)
			}
		}()
		_ = tx.SetReader([]byte("k"), io.MultiReader(testkit.Patterned(4<<20), panickingReader{"on purpose"}))
	}()
	if n := valueFiles(t, fs); n != 0 {
		t.Errorf("%d value files are left", n)
	}
	if n := open.Load(); n != 0 {
		t.Errorf("%d value files are open", n)
	}
	testkit.Must(t, tx.SetReader([]byte("k"), testkit.Patterned(2<<20)))
	testkit.Must(t, tx.Commit())
	testkit.Must(t, db.Close())
}

// stoppingReader gives bytes without end, and calls stop once it has given some.
type stoppingReader struct {
	after int
	stop  func()
}

func (r *stoppingReader) Read(b []byte) (int, error) {
	if r.after -= len(b); r.after <= 0 && r.stop != nil {
		r.stop()
		r.stop = nil
	}
	return len(b), nil
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

func TestStream_EndlessReaderIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, after := range []int{0, 4 << 20} { // before it has a file, and after that
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			fs := memfs.New()
			db := testkit.OpenOn(t, fs, nil)
			ctx, cancel := context.WithCancel(t.Context())
			set := func(r io.Reader) error {
				return db.UpdateContext(ctx, func(tx stoat.Txn) error { return tx.SetReader([]byte("k"), r) })
			}
			if err := set(io.MultiReader(testkit.Patterned(int64(after)), idleReader{})); !errors.Is(err, io.ErrNoProgress) {
				t.Errorf("nothing again and again: %v", err)
			}
			if err := set(&stoppingReader{after: after, stop: cancel}); !errors.Is(err, context.Canceled) {
				t.Errorf("when the context ends: %v", err)
			}
			tx, err := db.Begin(stoat.ReadWrite)
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.SetReader([]byte("k"), &stoppingReader{after: after, stop: func() { testkit.Must(t, db.Close()) }}); !errors.Is(err, stoat.ErrClosed) {
				t.Errorf("when the database is closed: %v", err)
			}
			tx.Discard()
		})
	}
}

// An endingReader is at its end, and ends something else with it.
type endingReader struct{ end func() }

func (r endingReader) Read([]byte) (int, error) {
	r.end()
	return 0, io.EOF
}

func TestStream_ReaderThatEndsItsTransactionIsRefused(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	ks := keyspace(t, db, "plain")
	timed, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.Must(t, err)
	for where, set := range map[string]func(stoat.Txn, io.Reader) error{
		"default":    func(tx stoat.Txn, r io.Reader) error { return tx.SetReader([]byte("k"), r) },
		"keyspace":   func(tx stoat.Txn, r io.Reader) error { return tx.In(ks).SetReader([]byte("k"), r) },
		"timestamps": func(tx stoat.Txn, r io.Reader) error { return tx.In(timed).At(5).SetReader([]byte("k"), r) },
	} {
		// In memory, with the read after which the value gets a file, and in files.
		for _, n := range []int64{0, 100, 32<<10 - 1, 2 << 20, 4<<20 + 17} {
			for what, end := range map[string]func(stoat.Txn){
				"Discard": (stoat.Txn).Discard,
				"Commit":  func(tx stoat.Txn) { testkit.Must(t, tx.Commit()) },
			} {
				what = fmt.Sprintf("%s: %s after %d bytes", where, what, n)
				tx := testkit.Begin(t, db, stoat.ReadWrite)
				r := io.MultiReader(testkit.Patterned(n), endingReader{func() { end(tx) }})
				testkit.WantError(t, what, set(tx, r), stoat.ErrTxnDone)
				tx = testkit.Begin(t, db, stoat.ReadWrite)
				r = &stoppingReader{after: int(n), stop: func() { end(tx) }}
				testkit.WantError(t, what+", and then more", set(tx, r), stoat.ErrTxnDone)
			}
		}
	}
	if n := valueFiles(t, fs); n != 0 {
		t.Errorf("%d value files are left", n)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		_, err := tx.Get([]byte("k"))
		testkit.WantError(t, "the key", err, stoat.ErrNotFound)
		return nil
	}))
	testkit.Must(t, db.Close())
}

// brokenReader ends with an error that wraps io.EOF, as connections may.
type brokenReader struct{ r io.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = fmt.Errorf("connection lost: %w", io.EOF)
	}
	return n, err
}

func TestStream_ReaderThatFailsEarlyIsNoShorterValue(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, n := range []int64{0, 1000, 2 << 20} {
		err := db.Update(func(tx stoat.Txn) error {
			return tx.SetReader([]byte("k"), brokenReader{testkit.Patterned(n)})
		})
		if err == nil {
			t.Errorf("a reader that failed after %d bytes was stored as a value", n)
		}
	}
}

// A database that was closed must not delete files of a later opening.
func TestStream_FilesAreNotRemovedOnceTheDatabaseIsClosed(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, nil)
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.SetReader([]byte("k"), testkit.Patterned(2<<20)); err != nil {
		t.Fatal(err)
	}
	testkit.Must(t, db.Close())
	before := valueFiles(t, fs)
	tx.Discard()
	if after := valueFiles(t, fs); before != 1 || after != before {
		t.Errorf("%d value files before the end of the transaction, then %d", before, after)
	}
	testkit.Must(t, testkit.OpenOn(t, fs, nil).Close())
	if n := valueFiles(t, fs); n != 0 {
		t.Errorf("the next opening leaves %d files that nobody refers to", n)
	}
}

// valueFiles returns how many value files there are.
func valueFiles(t *testing.T, fs vfs.FS) (n int) {
	t.Helper()
	names, err := fs.List(testkit.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".values") {
			n++
		}
	}
	return n
}
