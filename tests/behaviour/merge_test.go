package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// appending opens a database whose merge function appends.
func appending(t *testing.T, fs *memfs.FS) *stoat.DB {
	return testkit.OpenOn(t, fs, func(o *stoat.Options) {
		o.MergeFunction, o.MergeFunctions = merge.Append.Name(), []stoat.MergeFunction{merge.Append}
	})
}

func mergeOne(t *testing.T, db *stoat.DB, key, operand string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte(key), []byte(operand)) }))
}

func wantValue(t *testing.T, db *stoat.DB, key, want string) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		got, err := tx.Get([]byte(key))
		if err != nil || string(got) != want {
			return fmt.Errorf("%s is %.40q, %v, want %.40q", key, got, err, want)
		}
		return nil
	}))
}

func TestMerge_OperandsOfSeveralTransactionsAreNoConflict(t *testing.T) {
	t.Parallel()
	db := appending(t, memfs.New())
	first, second := testkit.Begin(t, db, stoat.ReadWrite), testkit.Begin(t, db, stoat.ReadWrite)
	reader := testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, first.Merge([]byte("k"), []byte("a")))
	testkit.Must(t, second.Merge([]byte("k"), []byte("b")))
	_, err := reader.Has([]byte("k"))
	testkit.Must(t, err)
	testkit.Must(t, reader.Set([]byte("other"), nil))
	testkit.Must(t, first.Commit())
	testkit.Must(t, second.Commit())
	wantValue(t, db, "k", "ab")
	if err := reader.Commit(); !errors.Is(err, stoat.ErrConflict) {
		t.Errorf("commit of a transaction that read the key: %v, want ErrConflict", err)
	}
}

func TestMerge_AReadOfOwnOperandsIsAReadOfTheKey(t *testing.T) {
	t.Parallel()
	db := appending(t, memfs.New())
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, tx.Merge([]byte("k"), []byte("a")))
	if v, err := tx.Get([]byte("k")); err != nil || string(v) != "a" {
		t.Errorf("own operand: %q, %v", v, err)
	}
	mergeOne(t, db, "k", "x")
	if err := tx.Commit(); !errors.Is(err, stoat.ErrConflict) {
		t.Errorf("commit: %v, want ErrConflict", err)
	}
	wantValue(t, db, "k", "x")
}

func TestMerge_WithoutItsFunctionNothingIsLost(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := appending(t, fs)
	mergeOne(t, db, "k", "a")
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	mergeOne(t, db, "k", "b")
	testkit.Must(t, db.Close())

	db = testkit.OpenOn(t, fs, nil)
	if name := db.Settings().MergeFunction; name != merge.Append.Name() {
		t.Errorf("the stored function is %q", name)
	}
	check := func() {
		t.Helper()
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			_, err := tx.Get([]byte("k"))
			if !errors.Is(err, stoat.ErrNoMergeFunction) || !strings.Contains(err.Error(), merge.Append.Name()) {
				t.Errorf("get: %v, want ErrNoMergeFunction with the name", err)
			}
			for range tx.All() {
				t.Error("an iterator shows the key")
			}
			if err := tx.Err(); !errors.Is(err, stoat.ErrNoMergeFunction) {
				t.Errorf("iterator: %v, want ErrNoMergeFunction", err)
			}
			if has, err := tx.Has([]byte("k")); !has || err != nil {
				t.Errorf("has: %v, %v", has, err)
			}
			return nil
		}))
	}
	check()
	if err := db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("k"), nil) }); !errors.Is(err, stoat.ErrNoMergeFunction) {
		t.Errorf("merge: %v, want ErrNoMergeFunction", err)
	}
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	check()
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
	wantValue(t, appending(t, fs), "k", "ab")
}

// A brittle function fails with an error, or panics if that is nil.
type brittle struct{ err error }

func (brittle) Name() string { return "brittle" }

func (b brittle) Merge(dst, _, existing []byte, operands [][]byte) ([]byte, error) {
	if b.err == nil {
		panic("on purpose")
	}
	return nil, b.err
}

func TestMerge_AFunctionThatFailsFailsReadsOnly(t *testing.T) {
	t.Parallel()
	for _, f := range []brittle{{}, {errors.New("on purpose")}, {stoat.ErrNotFound}, {stoat.ErrCorrupt}, {stoat.ErrConflict}} {
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
			o.MergeFunction, o.MergeFunctions = f.Name(), []stoat.MergeFunction{f}
		})
		for range 200 { // commits fold a hot key
			mergeOne(t, db, "k", "a")
		}
		testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			_, err := tx.Get([]byte("k"))
			testkit.WantError(t, "get", err, stoat.ErrMerge)
			_, err = tx.GetMany([][]byte{[]byte("k")}, nil)
			testkit.WantError(t, "get many", err, stoat.ErrMerge)
			for range tx.All() {
				t.Error("the loop shows the key")
			}
			testkit.WantError(t, "loop", tx.Err(), stoat.ErrMerge)
			return nil
		}))
		_, err := db.Stream(t.Context(), stoat.StreamOptions{}, func(*stoat.StreamBatch) error { return nil })
		testkit.WantError(t, "stream", err, stoat.ErrMerge)
	}
}

func TestMerge_OperandsHaveAMaximumSize(t *testing.T) {
	t.Parallel()
	db := appending(t, memfs.New())
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		if err := tx.Merge([]byte("k"), make([]byte, stoat.MaxOperandSize+1)); !errors.Is(err, stoat.ErrOperandTooLarge) {
			t.Errorf("too large: %v", err)
		}
		return tx.Merge([]byte("k"), make([]byte, stoat.MaxOperandSize))
	}))
}

// Operands that are too long together for Combine stay as they are.
func TestMerge_LongOperandsAreAReadAlthoughTheFunctionCombines(t *testing.T) {
	t.Parallel()
	db := appending(t, memfs.New())
	for operands, want := range map[int]error{2: nil, 3: stoat.ErrConflict} {
		tx, b := testkit.Begin(t, db, stoat.ReadWrite), db.NewBatch(stoat.BatchOptions{Size: 1 << 20})
		var err error
		for range operands {
			testkit.Must(t, tx.Merge([]byte("k"), make([]byte, 50_000)))
			err = b.Merge([]byte("k"), make([]byte, 50_000))
		}
		mergeOne(t, db, "k", "x")
		if got := tx.Commit(); !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("%d long operands: %v, want %v", operands, got, want)
		}
		if refused := errors.Is(err, stoat.ErrBatchTooLarge); refused != (want != nil) {
			t.Errorf("a batch of %d long operands: %v", operands, err)
		}
		b.Discard()
	}
	testkit.Must(t, db.Close())
}

// plain hides that a function combines operands.
type plain struct{ stoat.MergeFunction }

func TestMerge_ManyOperandsInOneTransaction(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]stoat.MergeFunction{"combined": merge.Append, "one by one": plain{merge.Append}} {
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
			o.MergeFunction, o.MergeFunctions = f.Name(), []stoat.MergeFunction{f}
		})
		mergeOne(t, db, "k", "start ")
		want := "start "
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range 1000 {
				operand := fmt.Sprint(i, " ")
				want += operand
				if err := tx.Merge([]byte("k"), []byte(operand)); err != nil {
					return err
				}
			}
			return nil
		}))
		t.Log(name)
		wantValue(t, db, "k", want)
	}
}

func TestMerge_ManyOperandsOfOneKeyTakeLittleMemory(t *testing.T) {
	t.Parallel()
	const operands, most = 5000, 8 << 20
	type writer interface {
		DeleteRange(lo, hi []byte) error
		Merge(key, operand []byte) error
		Commit(opts ...stoat.CommitOption) error
	}
	transaction := func(db *stoat.DB) writer { return testkit.Begin(t, db, stoat.ReadWrite) }
	for name, c := range map[string]struct {
		f     stoat.MergeFunction
		begin func(db *stoat.DB) writer
	}{
		"transaction, combined":   {merge.Append, transaction},
		"transaction, one by one": {plain{merge.Append}, transaction},
		"batch, combined": {merge.Append, func(db *stoat.DB) writer {
			return db.NewBatch(stoat.BatchOptions{Size: 1 << 20})
		}},
	} {
		db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
			o.MergeFunction, o.MergeFunctions = c.f.Name(), []stoat.MergeFunction{c.f}
		})
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("deleted"), nil) }))
		w := c.begin(db)
		testkit.Must(t, w.DeleteRange([]byte("d"), []byte("e")))
		for range operands {
			testkit.Must(t, w.Merge([]byte("k"), []byte("operand ")))
		}
		if m := db.Stats().Memory; m.Memtables+m.Prepared > most {
			t.Errorf("%s: %d operands take %d bytes, want at most %d", name, operands, m.Memtables+m.Prepared, most)
		}
		testkit.Must(t, w.Commit())
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			v, err := tx.Get([]byte("k"))
			if string(v) != strings.Repeat("operand ", operands) {
				t.Errorf("%s: the value has %d bytes", name, len(v))
			}
			if has, err := tx.Has([]byte("deleted")); has || err != nil {
				t.Errorf("%s: a key of a deleted range: %t, %v", name, has, err)
			}
			return err
		}))
		testkit.Must(t, db.Close())
	}
}

// What a transaction has lent of its own writes stays when it overwrites them many times.
func TestMerge_LentWritesStayBesideManyOperands(t *testing.T) {
	t.Parallel()
	db := appending(t, memfs.New())
	own := bytes.Repeat([]byte("value"), 120_000) // long enough for a block outside the Go heap
	for name, lend := range map[string]func(tx stoat.Txn) (value []byte, err error){
		"Get": func(tx stoat.Txn) ([]byte, error) { return tx.Get([]byte("own")) },
		"Iterator": func(tx stoat.Txn) ([]byte, error) {
			it := tx.Iterator(stoat.IterOptions{})
			it.Seek([]byte("own"))
			return it.Value(), it.Err()
		},
	} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			testkit.Must(t, tx.Set([]byte("own"), own))
			value, err := lend(tx)
			testkit.Must(t, err)
			for range 2000 {
				testkit.Must(t, tx.Merge([]byte("k"), []byte("operand ")))
			}
			if !bytes.Equal(value, own) {
				t.Errorf("%s: the value has changed", name)
			}
			return tx.Delete([]byte("k"))
		}))
	}
	testkit.Must(t, db.Close())
}

// After many merges in one transaction, Renew reads the value that they make.
func TestRenew_OfManyMergesInOneTransactionMayEndTheValueAtOnce(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.MergeFunction, o.MergeFunctions = merge.Append.Name(), []stoat.MergeFunction{plain{merge.Append}}
	})
	for n := range 70 { // of which 64 are kept without reading the key
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for range n {
				if err := tx.Merge([]byte("key"), []byte("x")); err != nil {
					return err
				}
			}
			if err := tx.Renew([]byte("key"), stoat.TTL(-time.Hour)); err != nil {
				return fmt.Errorf("renew after %d merges: %w", n, err)
			}
			if _, err := tx.Get([]byte("key")); !errors.Is(err, stoat.ErrNotFound) {
				t.Errorf("after %d merges, the expired key has the error %v", n, err)
			}
			return nil
		}))
	}
	testkit.Must(t, db.Close())
}

func TestRenew_KeepsAValueInAValueFile(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock()
	fs := memfs.New()
	db := testkit.OpenOn(t, fs, func(o *stoat.Options) { o.Clock = clock })
	value := strings.Repeat("v", 100_000)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return tx.Set([]byte("k"), []byte(value), stoat.TTL(100*time.Millisecond), stoat.UserMeta(7))
	}))
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	before := db.Stats().DiskBytes()
	for range 50 {
		clock.Ms.Add(50)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Renew([]byte("k"), stoat.TTL(100*time.Millisecond)) }))
		testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	}
	testkit.Must(t, db.Collect(context.Background()))
	if after := db.Stats().DiskBytes(); after > before+before/2 {
		t.Errorf("50 renewals grew the database from %d to %d bytes", before, after)
	}
	wantValue(t, db, "k", value)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		item, err := tx.GetItem([]byte("k"))
		if err != nil || item.UserMeta() != 7 || item.ValueSize() != int64(len(value)) {
			t.Errorf("item: %v, user %d, %d bytes", err, item.UserMeta(), item.ValueSize())
		}
		return nil
	}))
	testkit.MustBeSound(t, db)
	clock.Ms.Add(100)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Renew([]byte("k"), stoat.TTL(time.Hour)) }))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		if has, err := tx.Has([]byte("k")); has || err != nil {
			t.Errorf("a renewal brought an expired value back: %v, %v", has, err)
		}
		return nil
	}))
	if err := db.Update(func(tx stoat.Txn) error { return tx.Renew([]byte("k"), stoat.UserMeta(1)) }); !errors.Is(err, stoat.ErrInvalid) {
		t.Errorf("renewal by a user byte: %v, want ErrInvalid", err)
	}
}

// A lazy filter drops values by their size, and reads none.
type lazyFilter struct{ asked *int }

func (lazyFilter) Name() string { return "long" }

func (f lazyFilter) Filter(_ []byte, v *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	*f.asked++
	if v.Size() > 1000 {
		return stoat.FilterDrop, nil
	}
	return stoat.FilterKeep, nil
}

// Everything expires after an hour. Two keys, the first and the last, are renewed once.
func TestRenew_OfTwoKeysKeepsNothingElseThatExpired(t *testing.T) {
	t.Parallel()
	for _, flushed := range []bool{false, true} {
		t.Run(fmt.Sprint("flushed=", flushed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 1 << 20 })
				const keys = 2000
				for i := range keys {
					testkit.Must(t, db.Update(func(tx stoat.Txn) error {
						return tx.Set(fmt.Appendf(nil, "key-%04d", i), make([]byte, 3000), stoat.TTL(time.Hour))
					}, stoat.WithDurability(stoat.Buffered)))
				}
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					return errors.Join(tx.Renew([]byte("key-0000"), stoat.TTL(2*time.Hour)), tx.Renew([]byte("key-1999"), stoat.TTL(2*time.Hour)))
				}))
				if flushed { // an ingest flushes what is older
					_, err := db.IngestEntries(t.Context(), func(yield func(stoat.Entry, error) bool) {
						yield(stoat.Entry{Key: []byte("other")}, nil)
					}, stoat.IngestOptions{})
					testkit.Must(t, err)
				}
				time.Sleep(90 * time.Minute)
				if n := db.Stats().ValueBytes; n > 1<<20 {
					t.Errorf("value files have %d bytes half an hour after %d values expired", n, keys-2)
				}
				wantValue(t, db, "key-0000", string(make([]byte, 3000)))
				wantValue(t, db, "key-1999", string(make([]byte, 3000)))
				time.Sleep(time.Hour)
				if n := db.Stats().ValueBytes; n > 1<<20 {
					t.Errorf("value files have %d bytes half an hour after all values expired", n)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

func TestFilter_DropsWhatNoOlderSnapshotSees(t *testing.T) {
	t.Parallel()
	fs, asked := memfs.New(), 0
	open := func(filters ...stoat.Filter) *stoat.DB {
		return testkit.OpenOn(t, fs, func(o *stoat.Options) { o.Filter, o.Filters = "long", filters })
	}
	db := open(lazyFilter{&asked})
	long := []byte(strings.Repeat("l", 2000))
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("a"), long), tx.Set([]byte("b"), []byte("short")))
	}))
	held := testkit.Begin(t, db, stoat.ReadOnly)
	defer held.Discard()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("c"), long) }))
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	has := func(db *stoat.DB, key string) (has bool) {
		testkit.Must(t, db.View(func(tx stoat.Txn) (err error) {
			has, err = tx.Has([]byte(key))
			return err
		}))
		return has
	}
	if !has(db, "a") || has(db, "c") {
		t.Errorf("a, which an open transaction sees: %v; c: %v", has(db, "a"), has(db, "c"))
	}
	if v, err := held.Get([]byte("a")); err != nil || len(v) != len(long) {
		t.Errorf("the open transaction: %d bytes, %v", len(v), err)
	}
	held.Discard()
	testkit.Must(t, db.Close())
	before := asked
	db = open()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("d"), long) }))
	testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
	if asked != before || !has(db, "d") {
		t.Errorf("a filter that is not registered was asked %d times", asked-before)
	}
}
