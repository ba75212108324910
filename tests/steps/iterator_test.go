package steps

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// setFlushed sets keys and makes a table of them.
func setFlushed(t *testing.T, db *inside.DB, keys ...string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, key := range keys {
			if err := tx.Set([]byte(key), []byte("value")); err != nil {
				return err
			}
		}
		return nil
	}))
	mustFlush(t, db)
}

// A program that follows the changes asks again and again, and mostly there are none.
func TestIteratorSince_ReadsNoTableThatIsOlder(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillOn(t, disk)
	written := [][]string{{"a1", "a2"}, {"z1", "z2"}, {"m1", "m2"}, {"b", "y"}, {"c", "x"}, {"c", "n", "y"}}
	for i, keys := range written {
		setFlushed(t, db, keys...)
		if i < 3 { // side by side in the last level, the newest in the middle
			mustMergeAll(t, db)
		}
	}
	testkit.Must(t, db.Close())

	faults := faultfs.New(disk)
	read := map[string]bool{}
	db = openStillOn(t, faults)
	faults.Observe(func(op vfs.Op) {
		if op.Category == vfs.CatTable {
			read[op.Path] = true
		}
	})
	if n := db.Stats().Tables; n != len(written) {
		t.Fatalf("there are %d tables, want %d", n, len(written))
	}
	var want []string
	for since := len(written); since >= 0; since-- {
		if since < len(written) {
			want = append(want, written[since]...)
			slices.Sort(want)
			want = slices.Compact(want)
		}
		for _, reverse := range []bool{false, true} {
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				it := tx.Iterator(stoat.IterOptions{Since: uint64(since), Reverse: reverse})
				defer it.Close()
				var got []string
				for it.Next() {
					got = append(got, string(it.Key()))
				}
				if reverse {
					slices.Reverse(got)
				}
				if !slices.Equal(got, want) {
					t.Errorf("since %d, reverse %t: %q, want %q", since, reverse, got, want)
				}
				for _, key := range []string{"a", "b", "c", "m2", "y", "zz"} {
					it.Seek([]byte(key))
					at, found := slices.BinarySearch(want, key)
					if reverse && !found {
						at--
					}
					if there := at >= 0 && at < len(want); there != it.Valid() || there && string(it.Key()) != want[at] {
						t.Errorf("since %d, reverse %t: seeking %q leads to %q, want number %d of %q", since, reverse, key, it.Key(), at, want)
					}
				}
				return it.Err()
			}))
		}
		if newer := len(written) - since; len(read) != newer {
			t.Errorf("since %d: %d tables were read, and %d have anything newer", since, len(read), newer)
		}
	}
}

// A countdown is a context that is done when it has been asked so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestIterator_NextEndsWithItsContextInALongRunOfExpiredKeys(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 10_000 {
			if err := tx.Set(fmt.Appendf(nil, "%05d", i), nil, stoat.TTL(-1)); err != nil {
				return err
			}
		}
		return nil
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, reverse := range []bool{false, true} {
		err := db.ViewContext(&countdown{ctx, 20}, func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
			defer it.Close()
			if it.Next() {
				t.Errorf("reverse %t: %q is shown", reverse, it.Key())
			}
			return it.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("reverse %t: %v, want %v", reverse, err, context.Canceled)
		}
	}
}
