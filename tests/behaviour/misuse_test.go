package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// useAll calls everything that can return an error, and demands want of all.
// A write may be refused for ErrReadOnly instead.
func useAll(t *testing.T, what string, tx stoat.Txn, want error) {
	t.Helper()
	key := []byte("key")
	_, err := tx.Get(key)
	testkit.WantError(t, what+": Get", err, want)
	_, err = tx.GetCopy(key, nil)
	testkit.WantError(t, what+": GetCopy", err, want)
	_, err = tx.GetItem(key)
	testkit.WantError(t, what+": GetItem", err, want)
	_, err = tx.Has(key)
	testkit.WantError(t, what+": Has", err, want)
	testkit.WantError(t, what+": Set", tx.Set(key, key), want)
	testkit.WantError(t, what+": Set with TTL", tx.Set(key, key, stoat.TTL(1)), want)
	testkit.WantError(t, what+": Delete", tx.Delete(key), want)
	for range tx.All() {
		t.Errorf("%s: the loop shows something", what)
	}
	testkit.WantError(t, what+": All", tx.Err(), want)
	it := tx.Iterator(stoat.IterOptions{})
	if it.First() || it.Next() || it.Seek(key) || it.Valid() || it.Key() != nil || it.Value() != nil {
		t.Errorf("%s: an iterator shows something", what)
	}
	testkit.WantError(t, what+": Iterator", it.Err(), want)
	it.Close()
	it.Close()
	testkit.WantError(t, what+": Commit", tx.Commit(), want)
	done := make(chan error, 1)
	tx.CommitAsync(func(_ uint64, err error) { done <- err })
	if err := <-done; !errors.Is(err, want) && !errors.Is(err, stoat.ErrTxnDone) {
		t.Errorf("%s: CommitAsync: got error %v, want %v", what, err, want)
	}
	tx.Discard()
}

func TestMisuse_EndedTransactionRefusesAll(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, mode := range []stoat.Mode{stoat.ReadOnly, stoat.ReadWrite} {
		for what, end := range map[string]func(stoat.Txn){
			"after Discard": (stoat.Txn).Discard,
			"after Commit":  func(tx stoat.Txn) { testkit.Must(t, tx.Commit()) },
			"after CommitAsync": func(tx stoat.Txn) {
				done := make(chan error, 1)
				tx.CommitAsync(func(_ uint64, err error) { done <- err })
				testkit.Must(t, <-done)
			},
		} {
			tx := testkit.Begin(t, db, mode)
			end(tx)
			useAll(t, what, tx, stoat.ErrTxnDone)
		}
	}
}

func TestMisuse_ClosedDatabaseRefusesAll(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }))
	reader, writer := testkit.Begin(t, db, stoat.ReadOnly), testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, writer.Set([]byte("key"), []byte("other")))
	borrowed, err := reader.Get([]byte("key"))
	testkit.Must(t, err)
	it := reader.Iterator(stoat.IterOptions{})
	if !it.First() {
		t.Fatal("the iterator shows nothing")
	}
	testkit.Must(t, db.Close())
	if string(borrowed) != "value" {
		t.Errorf("bytes borrowed before Close are %q after it", borrowed)
	}
	if it.Next() {
		t.Error("an iterator moves after Close")
	}
	testkit.WantError(t, "iterator", it.Err(), stoat.ErrClosed)
	it.Close()
	useAll(t, "reader", reader, stoat.ErrClosed)
	useAll(t, "writer", writer, stoat.ErrClosed)
	_, err = db.Begin(stoat.ReadOnly)
	testkit.WantError(t, "Begin", err, stoat.ErrClosed)
	nothing := func(stoat.Txn) error { t.Error("the function runs"); return nil }
	testkit.WantError(t, "View", db.View(nothing), stoat.ErrClosed)
	testkit.WantError(t, "Update", db.Update(nothing), stoat.ErrClosed)
	testkit.WantError(t, "ViewContext", db.ViewContext(context.Background(), nothing), stoat.ErrClosed)
	testkit.WantError(t, "UpdateContext", db.UpdateContext(context.Background(), nothing), stoat.ErrClosed)
	testkit.WantError(t, "Sync", db.Sync(), stoat.ErrClosed)
	_ = db.Stats()
	testkit.Must(t, db.Close())
}

// An item of an ended transaction says so, wherever its value was, also when the
// database has been closed after it and the files are not mapped any more.
func TestMisuse_ItemsOfAnEndedTransactionAreRefused(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(t.TempDir(), nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		return errors.Join(tx.Set([]byte("short"), []byte("v")), tx.Set([]byte("long"), make([]byte, 2<<20)))
	}))
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	var items []stoat.Item
	for _, k := range []string{"short", "long"} {
		i, err := tx.GetItem([]byte(k))
		testkit.Must(t, err)
		items = append(items, i)
	}
	it := tx.Iterator(stoat.IterOptions{})
	if !it.First() {
		t.Fatal("the iterator shows nothing")
	}
	items = append(items, it.Item())
	for _, i := range items {
		if _, err := i.Value(); err != nil {
			t.Errorf("while the transaction is open: %v", err)
		}
	}
	refused := func(when string) {
		for n, i := range items {
			_, err := i.Value()
			testkit.WantError(t, fmt.Sprintf("%s, item %d: Value", when, n), err, stoat.ErrTxnDone)
			_, err = i.ValueCopy(nil)
			testkit.WantError(t, fmt.Sprintf("%s, item %d: ValueCopy", when, n), err, stoat.ErrTxnDone)
			_, err = i.Reader()
			testkit.WantError(t, fmt.Sprintf("%s, item %d: Reader", when, n), err, stoat.ErrTxnDone)
			_ = i.ValueSize()
		}
	}
	tx.Discard()
	refused("ended")
	testkit.Must(t, db.Close())
	refused("closed")
	if v, err := (stoat.Item{}).Value(); v != nil || err != nil {
		t.Errorf("the zero Item has a value: %v, %v", v, err)
	}
}

// The file that a reader reads from may be gone when its transaction has ended, and
// its bytes be another value's: it says so, also where nothing has changed yet.
func TestMisuse_ReadersOfAnEndedTransactionAreRefused(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	values := map[string][]byte{"short": []byte("v"), "apart": make([]byte, 1000), "streamed": make([]byte, 3<<20)}
	write := func(tx stoat.Txn) error {
		return errors.Join(
			tx.Set([]byte("short"), values["short"]), tx.Set([]byte("apart"), values["apart"]),
			tx.SetReader([]byte("streamed"), bytes.NewReader(values["streamed"])))
	}
	testkit.Must(t, db.Update(write))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	readers := make(map[string]io.ReadSeeker)
	open := func(what string, tx stoat.Txn) {
		for key, value := range values {
			item, err := tx.GetItem([]byte(key))
			testkit.Must(t, err)
			r, err := item.Reader()
			testkit.Must(t, err)
			readers[what+key] = r
			if key != "apart" { // of one nothing was read
				if all, err := io.ReadAll(r); err != nil || !bytes.Equal(all, value) {
					t.Errorf("%s%s: %d bytes, error %v", what, key, len(all), err)
				}
				_, err = r.Seek(0, io.SeekStart)
				testkit.Must(t, err)
			}
		}
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error { open("View: ", tx); return nil }))
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	open("Begin: ", tx)
	tx.Discard()
	tx = testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, write(tx))
	open("own: ", tx)
	testkit.Must(t, tx.Commit())
	refused := func(when string) {
		for what, r := range readers {
			n, err := r.Read(make([]byte, 1))
			testkit.WantError(t, fmt.Sprintf("%s: %s: Read of %d bytes", when, what, n), err, stoat.ErrTxnDone)
			_, err = r.Seek(0, io.SeekStart)
			testkit.WantError(t, fmt.Sprintf("%s: %s: Seek", when, what), err, stoat.ErrTxnDone)
		}
	}
	refused("at once")
	testkit.Must(t, db.Update(write))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	refused("when the values are gone")
}

func TestMisuse_ReadOnlyTransactionRefusesWrites(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		testkit.WantError(t, "Set", tx.Set([]byte("k"), nil), stoat.ErrReadOnly)
		testkit.WantError(t, "Delete", tx.Delete([]byte("k")), stoat.ErrReadOnly)
		return nil
	}))
}

func TestLimits_KeysAndValues(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	longest := bytes.Repeat([]byte{0xff}, stoat.MaxKeySize)
	tooLong := append(longest[:len(longest):len(longest)], 0)
	large := bytes.Repeat([]byte("value "), 1<<20)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, c := range []struct {
			key  []byte
			want error
		}{{nil, stoat.ErrEmptyKey}, {[]byte{}, stoat.ErrEmptyKey}, {tooLong, stoat.ErrKeyTooLarge}} {
			testkit.WantError(t, "Set", tx.Set(c.key, nil), c.want)
			testkit.WantError(t, "Delete", tx.Delete(c.key), c.want)
			_, err := tx.Get(c.key)
			testkit.WantError(t, "Get", err, c.want)
			_, err = tx.Has(c.key)
			testkit.WantError(t, "Has", err, c.want)
			_, err = tx.GetItem(c.key)
			testkit.WantError(t, "GetItem", err, c.want)
		}
		// An iterator may look for any key, and beyond the longest.
		it := tx.Iterator(stoat.IterOptions{Upper: tooLong})
		defer it.Close()
		if it.Seek(tooLong) || it.Seek(nil) || it.Err() != nil {
			t.Errorf("an empty database shows something, or an error: %v", it.Err())
		}
		return errors.Join(tx.Set(longest, large), tx.Set([]byte{0}, nil))
	}))
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		value, err := tx.Get(longest)
		if err != nil || !bytes.Equal(value, large) {
			t.Errorf("the longest key has %d bytes, error %v", len(value), err)
		}
		value, err = tx.Get([]byte{0})
		if err != nil || value == nil || len(value) != 0 {
			t.Errorf("the empty value is %v, error %v; want it empty and not nil", value, err)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

func TestClose_ConcurrentCallsCloseOnce(t *testing.T) {
	t.Parallel()
	for range 20 {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
		testkit.Must(t, err)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				// A commit that meets the closing is whole or refused.
				err := db.Update(func(tx stoat.Txn) error {
					return tx.Set(fmt.Appendf(nil, "%d", i), nil)
				})
				if err != nil && !errors.Is(err, stoat.ErrClosed) {
					t.Errorf("commit: %v", err)
				}
				if err := db.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		group.Wait()
	}
}

// TestClose_KeepsAllCommits closes under running commits: those that
// were acknowledged are there afterwards, the others are not, or wholly.
func TestClose_KeepsAllCommits(t *testing.T) {
	t.Parallel()
	for round := range 10 {
		disk := memfs.New()
		opts := stoat.Options{FS: disk}
		db, err := stoat.Open(testkit.Dir, &opts)
		testkit.Must(t, err)
		acknowledged := make([]map[int]bool, 4)
		var group sync.WaitGroup
		for w := range acknowledged {
			acknowledged[w] = make(map[int]bool)
			group.Go(func() {
				for n := 0; ; n++ {
					err := db.Update(func(tx stoat.Txn) error {
						return errors.Join(
							tx.Set(fmt.Appendf(nil, "a/%d/%d", w, n), nil),
							tx.Set(fmt.Appendf(nil, "b/%d/%d", w, n), nil))
					}, stoat.WithDurability(stoat.Buffered))
					if errors.Is(err, stoat.ErrClosed) {
						return
					}
					if err != nil {
						t.Errorf("commit: %v", err)
						return
					}
					acknowledged[w][n] = true
				}
			})
		}
		for db.Stats().Commits < uint64(20*(round+1)) {
			_ = db.View(func(stoat.Txn) error { return nil })
		}
		testkit.Must(t, db.Close())
		group.Wait()
		opts.FS = disk.Crash(memfs.KeepNone, nil)
		db, err = stoat.Open(testkit.Dir, &opts)
		testkit.Must(t, err)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			a, err := testkit.ScanAll(tx, stoat.IterOptions{Prefix: []byte("a/")})
			testkit.Must(t, err)
			b, err := testkit.ScanAll(tx, stoat.IterOptions{Prefix: []byte("b/")})
			testkit.Must(t, err)
			if len(a) != len(b) {
				t.Errorf("half a transaction is there: %d and %d", len(a), len(b))
			}
			for w := range acknowledged {
				for n := range acknowledged[w] {
					if ok, err := tx.Has(fmt.Appendf(nil, "a/%d/%d", w, n)); err != nil || !ok {
						t.Errorf("commit %d of writer %d is gone: %v", n, w, err)
					}
				}
			}
			return nil
		}))
		testkit.Must(t, db.Close())
	}
}

func TestUpdate_PanicDiscards(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, run := range []func(func(stoat.Txn) error) error{
		db.View,
		func(fn func(stoat.Txn) error) error { return db.Update(fn) },
	} {
		var kept stoat.Txn
		func() {
			defer func() {
				if p := recover(); p != "on purpose" {
					t.Errorf("recovered %v", p)
				}
			}()
			_ = run(func(tx stoat.Txn) error {
				kept = tx
				_ = tx.Set([]byte("k"), []byte("never")) // refused in a View
				panic("on purpose")
			})
		}()
		if _, err := kept.Get([]byte("k")); err == nil {
			t.Error("the transaction is still open after a panic in its function")
		}
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		ok, err := tx.Has([]byte("k"))
		if ok {
			t.Error("the write of a function that panicked was committed")
		}
		return err
	}))
}

func TestOptions_OutOfRangeAreNamed(t *testing.T) {
	t.Parallel()
	for field, o := range map[string]stoat.Options{
		"MemtableSize": {MemtableSize: 1},
		"Durability":   {Durability: 7},
	} {
		o.FS = memfs.New()
		if _, err := stoat.Open(testkit.Dir, &o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v, want an error that names the field", field, err)
		}
	}
	db := testkit.OpenMem(t)
	if _, err := db.Begin(0); err == nil {
		t.Error("Begin accepts a mode of 0")
	}
}

// TestReadOnlyTransaction_ServesManyGoroutines uses one snapshot from many
// goroutines at once, as the documentation allows.
func TestReadOnlyTransaction_ServesManyGoroutines(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 200 {
			if err := tx.Set(fmt.Appendf(nil, "%03d", i), fmt.Appendf(nil, "value %d", i)); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				for i := range 200 {
					value, err := tx.Get(fmt.Appendf(nil, "%03d", (i+g)%200))
					if err != nil || string(value) != fmt.Sprintf("value %d", (i+g)%200) {
						t.Errorf("got %q, %v", value, err)
					}
				}
				items, err := testkit.ScanAll(tx, stoat.IterOptions{Reverse: g%2 == 0})
				if err != nil || len(items) != 200 {
					t.Errorf("scanned %d items, error %v", len(items), err)
				}
			})
		}
		group.Wait()
		return nil
	}))
}

// A View is not its function's to end; others use its memory afterwards. It is
// looked at without invariants, where no View has memory of its own.
func TestView_DiscardAndCommitEndNoOtherTransaction(t *testing.T) {
	t.Parallel()
	for _, end := range []func(stoat.Txn){(stoat.Txn).Discard, func(tx stoat.Txn) { _ = tx.Commit() }} {
		db := testkit.OpenMem(t)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
		const others = 64
		began, ended := make(chan struct{}, others), make(chan struct{})
		errs := make(chan error, others)
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			end(tx)
			for range others {
				go func() {
					errs <- db.View(func(tx stoat.Txn) error {
						began <- struct{}{}
						<-ended
						_, err := tx.Get([]byte("k"))
						return err
					})
				}()
			}
			for range others {
				<-began
			}
			_, err := tx.Get([]byte("k"))
			testkit.WantError(t, "Get after the end", err, stoat.ErrTxnDone)
			return nil
		}))
		close(ended)
		for range others {
			testkit.Must(t, <-errs)
		}
	}
}

func TestLimits_ErrorsNameThem(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		long := make([]byte, stoat.MaxKeySize+2)
		for text, err := range map[string]error{
			"65537 bytes, of at most 65536": tx.Set(long[1:], nil),
			"65538 bytes, of at most 65537": tx.DeleteRange(nil, long),
		} {
			testkit.WantError(t, text, err, stoat.ErrKeyTooLarge)
			if !strings.Contains(err.Error(), text) {
				t.Errorf("want %q, got %q", text, err)
			}
		}
		return nil
	}))
}

// A goroutine may go on to open and close iterators while its transaction ends. That
// harms neither this goroutine nor the one that ends the transaction.
func TestMisuse_IteratorsInUseWhileTheirTransactionEnds(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }))
	for what, run := range map[string]func(use func(stoat.Txn)){
		"Discard": func(use func(stoat.Txn)) {
			tx := testkit.Begin(t, db, stoat.ReadOnly)
			use(tx)
			tx.Discard()
		},
		"View": func(use func(stoat.Txn)) {
			testkit.Must(t, db.View(func(tx stoat.Txn) error { use(tx); return nil }))
		},
	} {
		for range 100 {
			begun, ended := make(chan struct{}), make(chan error, 1)
			run(func(tx stoat.Txn) {
				left := tx.Iterator(stoat.IterOptions{})
				go func() {
					for n := 0; ; n++ {
						it := tx.Iterator(stoat.IterOptions{})
						it.Close()
						if n == 0 {
							close(begun)
						}
						if err := it.Err(); err != nil {
							left.Close()
							ended <- err
							return
						}
					}
				}()
				<-begun
			})
			testkit.WantError(t, what, <-ended, stoat.ErrTxnDone)
		}
	}
}
