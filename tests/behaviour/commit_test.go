package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Groups are cut at a number of bytes, so a leader's own request may not be in
// the group it leads. No commit must be left waiting.
func TestCommit_LargeOnesOfManyGoroutinesAllFinish(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile(), Durability: stoat.Buffered})
	testkit.Must(t, err)
	value := bytes.Repeat([]byte{1}, 3<<20)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 4 {
				err := db.Update(func(tx stoat.Txn) error {
					return tx.Set(fmt.Appendf(nil, "%d/%d", g, i), value)
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		n := 0
		for range tx.All() {
			n++
		}
		if n != 32 || tx.ReadVersion() != 32 {
			t.Errorf("%d keys at version %d, want 32 at 32", n, tx.ReadVersion())
		}
		return tx.Err()
	}))
	testkit.Must(t, db.Close())
}

// The caller may hold what done takes, however early the commit ends.
func TestCommitAsync_NeverCallsBackOnTheCallersGoroutine(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile()})
	testkit.Must(t, err)
	key := []byte("k")
	for what, prepare := range map[string]func(stoat.Txn) []stoat.CommitOption{
		"nothing to write": func(stoat.Txn) []stoat.CommitOption { return nil },
		"has ended":        func(tx stoat.Txn) []stoat.CommitOption { tx.Discard(); return nil },
		"no durability": func(tx stoat.Txn) []stoat.CommitOption {
			testkit.Must(t, tx.Set(key, nil))
			return []stoat.CommitOption{stoat.WithDurability(99)}
		},
		"conflict": func(tx stoat.Txn) []stoat.CommitOption {
			_, err := tx.Get(key)
			testkit.WantError(t, "Get", err, stoat.ErrNotFound)
			testkit.Must(t, tx.Set(key, nil))
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(key, nil) }))
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete(key) }))
			return nil
		},
	} {
		var held sync.Mutex
		var answer error
		var group sync.WaitGroup
		group.Add(1)
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		opts := prepare(tx)
		held.Lock()
		tx.CommitAsync(func(version uint64, err error) {
			defer group.Done()
			held.Lock()
			defer held.Unlock()
			answer = err
			if version != 0 {
				t.Errorf("%s: version %d", what, version)
			}
		}, opts...)
		held.Unlock()
		group.Wait()
		if (answer == nil) != (what == "nothing to write") {
			t.Errorf("%s: %v", what, answer)
		}
	}
	testkit.Must(t, db.Close())
}

func TestCommit_RefusesUnknownDurabilityEvenWithoutWrites(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, mode := range []stoat.Mode{stoat.ReadOnly, stoat.ReadWrite} {
		if err := testkit.Begin(t, db, mode).Commit(stoat.WithDurability(99)); err == nil {
			t.Errorf("mode %d: no error", mode)
		}
		testkit.Must(t, testkit.Begin(t, db, mode).Commit(stoat.WithDurability(0))) // as the options say
	}
}

// The version that done gets is the version that readers of the write find.
func TestCommitAsync_TellsItsVersion(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	versions := make(chan uint64, 3)
	for range cap(versions) {
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		testkit.Must(t, tx.Set([]byte("k"), []byte("v")))
		tx.CommitAsync(func(version uint64, err error) {
			if err != nil {
				t.Error(err)
			}
			versions <- version
		})
	}
	newest := uint64(0)
	for range cap(versions) {
		newest = max(newest, <-versions)
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		item, err := tx.GetItem([]byte("k"))
		if err == nil && (item.Version() != newest || newest != uint64(cap(versions))) {
			t.Errorf("done was told version %d at last, a reader finds %d", newest, item.Version())
		}
		return err
	}))
}

func TestCommitAsync_NeedsNoCallback(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, tx.Set([]byte("k"), []byte("v")))
	tx.CommitAsync(nil)
	tx.CommitAsync(nil) // has ended
	testkit.Must(t, db.Sync())
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		_, err := tx.Get([]byte("k"))
		return err
	}))
}

func TestClose_WaitsForAsyncCommitsAndTheirCallbacks(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.NewVolatile()})
	testkit.Must(t, err)
	var called, failed atomic.Int64
	const n = 500
	for i := range n {
		tx, err := db.Begin(stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Set(fmt.Appendf(nil, "%d", i), nil))
		tx.CommitAsync(func(_ uint64, err error) {
			called.Add(1)
			if err != nil {
				failed.Add(1)
			}
		})
		if err := tx.Set([]byte("late"), nil); !errors.Is(err, stoat.ErrTxnDone) {
			t.Fatalf("a write after CommitAsync: %v", err)
		}
	}
	testkit.Must(t, db.Close())
	if called.Load() != n || failed.Load() != 0 {
		t.Errorf("%d of %d callbacks were called, %d with an error", called.Load(), n, failed.Load())
	}
}
