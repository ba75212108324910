package stoat_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/vfs"
)

// patterned returns a reader of n bytes that depend on where they are.
func patterned(n int64) io.Reader {
	return io.LimitReader(&patternReader{}, n)
}

type patternReader struct{ at uint64 }

func (p *patternReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(p.at ^ p.at>>8 ^ p.at>>16)
		p.at++
	}
	return len(b), nil
}

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

func checkStream(t *testing.T, tx *stoat.Txn, key string, n int64) {
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
	if err := sameBytes(r, patterned(n)); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	v, err := tx.Get([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBytes(bytes.NewReader(v), patterned(n)); err != nil {
		t.Fatalf("%s, in one: %v", key, err)
	}
}

func TestValuesGivenAsReadersAreReadInTheTransactionAfterItAndAfterAPowerCut(t *testing.T) {
	t.Parallel()
	sizes := map[string]int64{"a": 0, "b": 1, "c": 100, "d": 100_000, "e": 5<<20 + 17}
	disk := vfs.NewMem()
	opts := &stoat.Options{FS: disk}
	db, err := stoat.Open(dbDir, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *stoat.Txn) error {
		for key, n := range sizes {
			if err := tx.SetReader([]byte(key), patterned(n), stoat.UserMeta(7)); err != nil {
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
	crashed := disk.Crash(vfs.CrashKeepNone, rand.New(rand.NewPCG(1, 2)))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	opts.FS = crashed
	if db, err = stoat.Open(dbDir, opts); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := db.View(func(tx *stoat.Txn) error {
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

func TestAValueGivenAsAReaderLeavesNothingWhenItIsNotCommitted(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	db, err := stoat.Open(dbDir, &stoat.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	tx, err := db.Begin(stoat.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.SetReader([]byte("k"), io.MultiReader(patterned(1<<20), failing{broken})); !errors.Is(err, broken) {
		t.Fatalf("a reader that fails: %v", err)
	}
	if _, err := tx.Get([]byte("k")); !errors.Is(err, stoat.ErrNotFound) {
		t.Fatal(err)
	}
	if err := tx.SetReader([]byte("k"), patterned(1<<20)); err != nil {
		t.Fatal(err)
	}
	checkStream(t, tx, "k", 1<<20)
	tx.Discard()
	names, err := fs.List(dbDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".values") {
			t.Errorf("%s is left", name)
		}
	}
	if err := db.View(func(tx *stoat.Txn) error {
		return tx.SetReader([]byte("k"), patterned(1))
	}); !errors.Is(err, stoat.ErrReadOnly) {
		t.Fatalf("SetReader in a View: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
