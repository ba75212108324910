package behaviour

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// contend runs updates of one counter on goroutines, each with other writes, and returns
// the error of the first that fails.
func contend(db *stoat.DB, goroutines, updates int, others func(tx stoat.Txn, g, i int) error, opts ...stoat.CommitOption) error {
	var all sync.WaitGroup
	failed := make([]error, goroutines)
	for g := range goroutines {
		all.Go(func() {
			for i := range updates {
				err := db.Update(func(tx stoat.Txn) error {
					if err := addOne(tx); err != nil {
						return err
					}
					return others(tx, g, i)
				}, append(opts, stoat.Retries(1000))...)
				failed[g] = errors.Join(failed[g], err)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// addOne adds 1 to a counter.
func addOne(tx stoat.Txn) error {
	n, err := counted(tx)
	if err != nil {
		return err
	}
	return tx.Set([]byte("counter"), binary.BigEndian.AppendUint64(nil, n+1))
}

func counted(tx stoat.Txn) (uint64, error) {
	v, err := tx.Get([]byte("counter"))
	if errors.Is(err, stoat.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// wantCounted fails the test if the counter is not n.
func wantCounted(t *testing.T, db *stoat.DB, n uint64) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		got, err := counted(tx)
		if got != n {
			t.Errorf("the counter is %d, want %d", got, n)
		}
		return err
	}))
}

// A transaction of half a memtable hands its own table over, instead of copying it.
func TestContended_UpdatesOfHalfAMemtableCommit(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	value := make([]byte, 1<<10)
	testkit.Must(t, contend(db, 6, 12, func(tx stoat.Txn, g, i int) error {
		for k := range 30 {
			if err := tx.Set(fmt.Appendf(nil, "%d-%d-%d", g, i, k), value); err != nil {
				return err
			}
		}
		return nil
	}))
	wantCounted(t, db, 6*12)
	testkit.Must(t, db.Close())
}

// With buffered commits, groups follow each other so closely that a leader can pass the
// lead to an update that is about to fail.
func TestContended_BufferedUpdatesOfManyGoroutinesAllEnd(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	none := func(stoat.Txn, int, int) error { return nil }
	for range 20 {
		testkit.Must(t, contend(db, 8, 100, none, stoat.WithDurability(stoat.Buffered)))
	}
	wantCounted(t, db, 20*8*100)
	testkit.Must(t, db.Close())
}
