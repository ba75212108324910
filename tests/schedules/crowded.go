package schedules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// crowdedKeys is how many keys RunCrowded writes.
const crowdedKeys = 20_000

// RunCrowded scans an encrypted database n times. The memory of decrypted pages becomes
// crowded and free again within each scan.
func RunCrowded(seed uint64, n int) error {
	o := &stoat.Options{FS: memfs.New(), Keys: testkit.Keys}
	db, err := stoat.Open(testkit.Dir, o)
	if err != nil {
		return err
	}
	err = db.Update(func(tx stoat.Txn) error {
		return testkit.Times(crowdedKeys, func(i int) error { return tx.Set(testkit.Key(i), testkit.LongValue(i)) })
	})
	if err == nil {
		err = db.Compact(context.Background(), stoat.CompactOptions{})
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return testkit.Times(n, func(i int) error { return scanCrowded(o, seed+uint64(i)) })
}

// scanCrowded scans the database once, after an opening: no page is decrypted yet.
func scanCrowded(o *stoat.Options, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 41))
	db, err := inside.Open(testkit.Dir, o, work.Executor{})
	if err != nil {
		return err
	}
	reverse := rng.IntN(2) == 0
	err = db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
		defer it.Close()
		i, next := 0, 0
		for ; it.Next(); i++ {
			if i == next {
				db.Engine.Keys.Memory.SetLimit(rng.Int64N(2)) // 0 is no limit, and 1 is always reached
				next += 1 + rng.IntN(300)
			}
			at := i
			if reverse {
				at = crowdedKeys - 1 - i
			}
			value, err := it.Item().Value()
			if err != nil {
				return err
			}
			if !bytes.Equal(it.Key(), testkit.Key(at)) || !bytes.Equal(value, testkit.LongValue(at)) {
				return fmt.Errorf("entry %d is %q with %.40q", at, it.Key(), value)
			}
		}
		if i != crowdedKeys && it.Err() == nil {
			return fmt.Errorf("%d entries, want %d", i, crowdedKeys)
		}
		return it.Err()
	})
	if err != nil {
		err = fmt.Errorf("seed %d: %w", seed, err)
	}
	return errors.Join(err, db.Close())
}
