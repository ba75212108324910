package timestamps

import (
	"fmt"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RunBuried lets a background job rewrite the last level, which holds a deletion below
// the discard point. An older version of the key is in the memtable. The deletion must
// stay.
func RunBuried() error {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	if err != nil {
		return err
	}
	deleted := []byte("deleted")
	put := func() error {
		return db.Update(func(tx stoat.Txn) error {
			for i := range 50 {
				if err := tx.In(ks).At(20).Set(testkit.Key(i), testkit.Key(i)); err != nil {
					return err
				}
			}
			return tx.In(ks).At(20).Delete(deleted)
		})
	}
	if err := put(); err != nil {
		return err
	}
	// The snapshot keeps the first half of the entries, which are then garbage.
	held, err := db.Begin(stoat.ReadOnly)
	if err != nil {
		return err
	}
	defer held.Discard()
	if err := put(); err != nil {
		return err
	}
	if err := db.Compact(context(), stoat.CompactOptions{}); err != nil {
		return err
	}
	err = db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(10).Set(deleted, []byte("late")) })
	if err != nil {
		return err
	}
	if err := ks.DiscardBelow(30); err != nil {
		return err
	}
	before := db.Stats().Compactions
	held.Discard()
	for deadline := time.Now().Add(time.Minute); db.Stats().Compactions == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing rewrites the last level")
		}
	}
	return db.View(func(tx stoat.Txn) error {
		if has, err := tx.In(ks).At(35).Has(deleted); has || err != nil {
			return fmt.Errorf("a deleted key has a value: %v, %w", has, err)
		}
		return nil
	})
}
