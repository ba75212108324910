package behaviour

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// increment adds 1 to the counter k.
func increment(tx stoat.Txn) error {
	v, err := tx.Get([]byte("k"))
	if err != nil && !errors.Is(err, stoat.ErrNotFound) {
		return err
	}
	n := uint64(1)
	if len(v) == 8 {
		n += binary.BigEndian.Uint64(v)
	}
	return tx.Set([]byte("k"), binary.BigEndian.AppendUint64(nil, n))
}

func TestRetries_RunTheFunctionAgainAfterConflicts(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	const writers, each = 4, 50
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				if err := db.Update(increment, stoat.Retries(1<<30), stoat.WithDurability(stoat.Buffered)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		v, err := tx.Get([]byte("k"))
		if err == nil && binary.BigEndian.Uint64(v) != writers*each {
			t.Errorf("the counter is %d, want %d", binary.BigEndian.Uint64(v), writers*each)
		}
		return err
	}))
}

// meet returns a function whose first n runs meet a conflict.
func meet(db *stoat.DB, n int, runs *int) func(stoat.Txn) error {
	return func(tx stoat.Txn) error {
		if err := increment(tx); err != nil {
			return err
		}
		if *runs++; *runs <= n {
			return db.Update(increment)
		}
		return nil
	}
}

func TestRetries_EndAfterTheirNumber(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, c := range []struct {
		opts            []stoat.CommitOption
		conflicts, runs int
		want            error
	}{
		{nil, 1, 1, stoat.ErrConflict},
		{[]stoat.CommitOption{stoat.Retries(0)}, 1, 1, stoat.ErrConflict},
		{[]stoat.CommitOption{stoat.Retries(3)}, 3, 4, nil},
		{[]stoat.CommitOption{stoat.Retries(3)}, 9, 4, stoat.ErrConflict},
		{[]stoat.CommitOption{stoat.WithDurability(99), stoat.Retries(3)}, 0, 1, stoat.ErrInvalid},
		{[]stoat.CommitOption{stoat.Retries(-1)}, 0, 0, stoat.ErrInvalid},
	} {
		runs := 0
		err := db.Update(meet(db, c.conflicts, &runs), c.opts...)
		if runs != c.runs || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%d conflicts: %d runs and %v, want %d and %v", c.conflicts, runs, err, c.runs, c.want)
		}
	}
}

func TestRetries_NeverFollowAnErrorOfTheFunctionOrAnEndedContext(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	runs := 0
	gaveUp := errors.New("gave up")
	err := db.Update(func(stoat.Txn) error { runs++; return gaveUp }, stoat.Retries(5))
	if err != gaveUp || runs != 1 {
		t.Errorf("%d runs and %v", runs, err)
	}
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	testkit.Must(t, increment(tx))
	testkit.Must(t, tx.Commit(stoat.WithDurability(stoat.Buffered), stoat.Retries(5))) // ignored
}
