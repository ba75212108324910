package behaviour

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Writers commit to two keyspaces at once, while both are dropped and made anew. A
// transaction that fails has written to neither.
func TestKeyspace_DropsBesideWriters(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable})
	testkit.Must(t, err)
	ledger := keyspace(t, db, "ledger")
	const writers, tries = 3, 60
	testkit.Must(t, testkit.Concurrently(writers+1, func(i int, _ *rand.Rand) error {
		if i == writers {
			return testkit.Times(tries, func(int) error {
				if _, err := db.Keyspace("moving", nil); err != nil {
					return err
				}
				return db.DropKeyspace("moving")
			})
		}
		return testkit.Times(tries, func(n int) error {
			moving, err := db.Keyspace("moving", nil)
			if err != nil {
				return err
			}
			key := fmt.Appendf(nil, "%d/%d", i, n)
			committed := db.Update(func(tx stoat.Txn) error {
				return errors.Join(tx.In(moving).Set(key, make([]byte, 700)), tx.In(ledger).Set(key, key))
			})
			if committed != nil && !errors.Is(committed, stoat.ErrNoKeyspace) {
				return committed
			}
			return db.View(func(tx stoat.Txn) error {
				has, err := tx.In(ledger).Has(key)
				if has != (committed == nil) {
					return fmt.Errorf("the commit returned %v, but the ledger has the key: %t", committed, has)
				}
				ok, gone := tx.In(moving).Has(key)
				if gone != nil && !errors.Is(gone, stoat.ErrNoKeyspace) || ok && committed != nil {
					return fmt.Errorf("the commit returned %v, but the key is there: %t, %w", committed, ok, gone)
				}
				return err
			})
		})
	}, 1))
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestKeyspace_ReadersBesideADropSeeAllOfItOrNone(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered})
	testkit.Must(t, err)
	var dropped atomic.Pointer[stoat.Keyspace]
	const drops = 1500
	var ended atomic.Bool
	key := []byte("key") // that the keyspace always has
	testkit.Must(t, testkit.Concurrently(3, func(i int, _ *rand.Rand) error {
		if i > 0 {
			for !ended.Load() {
				if ks := dropped.Load(); ks != nil {
					err := db.View(func(tx stoat.Txn) error { _, err := tx.In(ks).Get(key); return err })
					if err != nil && !errors.Is(err, stoat.ErrNoKeyspace) {
						return err
					}
				}
				runtime.Gosched()
			}
			return nil
		}
		defer ended.Store(true)
		return testkit.Times(drops, func(int) error {
			ks, err := db.Keyspace("dropped", nil)
			if err == nil {
				err = db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set(key, nil) })
			}
			if err != nil {
				return err
			}
			dropped.Store(ks)
			runtime.Gosched()
			return db.DropKeyspace("dropped")
		})
	}, 1))
	testkit.Must(t, db.Close())
}
