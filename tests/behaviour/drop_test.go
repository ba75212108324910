package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestDropAll_LeavesAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 5000, 100, 1)
	testkit.SetKeys(t, db, 5000, 5600, 2000, 2) // in value files
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.SetKeys(t, db, 2000, 7000, 50, 3)
	testkit.Must(t, db.DropAll(t.Context()))
	if got := itemsOf(t, db); len(got) != 0 {
		t.Errorf("%d keys are left", len(got))
	}
	if s := db.Stats(); s.Tables != 0 || s.Values != 0 || s.GarbageFiles != 0 || s.MemtableEntries != 0 {
		t.Errorf("%d tables, %d value files, %d files of garbage, %d entries in memory are left",
			s.Tables, s.Values, s.GarbageFiles, s.MemtableEntries)
	}
	testkit.SetKeys(t, db, 0, 10, 10, 4)
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, nil)
	if got := itemsOf(t, db); len(got) != 10 {
		t.Errorf("%d keys after reopening, want 10", len(got))
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.DropAll(t.Context()))
	testkit.Must(t, db.DropAll(t.Context()))
	testkit.Must(t, db.Close())
}

// Tables that are deleted whole go without being read: DropAll of a large
// database must not take the time of reading it.
func TestDropAll_ReadsNoTableThatItDeletesWhole(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, MemtableSize: 128 << 10})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 20_000, 100, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	size := db.Stats().TableBytes
	var read atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatTable {
			read.Add(op.Len)
		}
	})
	testkit.Must(t, db.DropAll(t.Context()))
	if n := db.Stats().Tables; n != 0 {
		t.Errorf("%d tables are left", n)
	}
	if n := read.Load(); n > size/10 {
		t.Errorf("%d bytes of %d were read", n, size)
	}
	testkit.Must(t, db.Close())
}

func TestDropPrefix_GivesSpaceBackAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 4000, 100, 1)
	testkit.SetKeys(t, db, 4000, 4400, 2000, 2) // in value files
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	before := db.Stats()
	testkit.Must(t, db.DropPrefix(t.Context(), []byte("key-003")))
	// 15 % of the values: a busy database would leave them for a while.
	for i := range 6 {
		testkit.Must(t, db.DropPrefix(t.Context(), fmt.Appendf(nil, "key-0041%d", i)))
	}
	const want = 3000 + 340
	if got := itemsOf(t, db); len(got) != want || got[string(testkit.Key(2999))] == "" || got[string(testkit.Key(4300))] == "" {
		t.Errorf("%d keys are left, want %d", len(got), want)
	}
	after := db.Stats()
	if after.TableBytes > before.TableBytes*8/10 || after.ValueBytes > before.ValueBytes*19/20 {
		t.Errorf("tables had %d bytes and have %d, values %d and %d",
			before.TableBytes, after.TableBytes, before.ValueBytes, after.ValueBytes)
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.DropPrefix(t.Context(), []byte("\xff\xff")))
	testkit.Must(t, db.DropPrefix(t.Context(), []byte{}))
	if got := itemsOf(t, db); len(got) != 0 {
		t.Errorf("%d keys have not the empty prefix", len(got))
	}
	testkit.Must(t, db.Close())
}

func TestDropPrefix_LongerThanAnyKeyIsAnError(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	plain, dated := keyspace(t, db, "plain"), timed(t, db)
	for what, c := range map[string]struct {
		drop func(ctx context.Context, prefix []byte) error
		most int
	}{
		"the default keyspace":       {db.DropPrefix, stoat.MaxKeySize},
		"a keyspace":                 {plain.DropPrefix, stoat.MaxKeySize},
		"a keyspace with timestamps": {dated.DropPrefix, stoat.MaxKeySize - 10},
	} {
		for _, first := range []string{"a", "\xff"} {
			prefix := []byte(strings.Repeat(first, c.most+1))
			testkit.Must(t, c.drop(t.Context(), prefix[1:]))
			testkit.WantError(t, what, c.drop(t.Context(), prefix), stoat.ErrKeyTooLarge)
			testkit.WantError(t, what, c.drop(t.Context(), bytes.Repeat(prefix, 2)), stoat.ErrKeyTooLarge)
		}
	}
}

func TestDropPrefix_OfTheLastKeysHasNoEnd(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	setKeys(t, db, "a \xfe \xff\x01 \xff\xff "+string(lastKey[1:])+" "+string(lastKey))
	for _, step := range []struct{ prefix, left string }{
		{string(lastKey), "a \xfe \xff\x01 \xff\xff " + string(lastKey[1:])},
		{"\xff\xff", "a \xfe \xff\x01"},
		{"\xff", "a \xfe"},
	} {
		testkit.Must(t, db.DropPrefix(t.Context(), []byte(step.prefix)))
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			wantKeys(t, fmt.Sprintf("without %.10q", step.prefix), tx, step.left)
			return nil
		}))
	}
	testkit.MustBeSound(t, db)
}

func TestDrop_OpenTransactionStillSeesTheKeys(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	testkit.SetKeys(t, db, 0, 3000, 100, 1)
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	testkit.Must(t, db.DropAll(t.Context()))
	n := 0
	for range tx.All() {
		n++
	}
	if n != 3000 || tx.Err() != nil {
		t.Errorf("the transaction sees %d keys, error %v", n, tx.Err())
	}
	if len(itemsOf(t, db)) != 0 {
		t.Error("others see keys")
	}
	tx.Discard()
	testkit.Eventually(t, "the space comes back by itself", func() bool { s := db.Stats(); return s.Tables == 0 && s.GarbageFiles == 0 })
	testkit.Must(t, db.Close())
}

func TestDrop_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.SetKeys(t, db, 0, 10, 10, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	testkit.WantError(t, "drop", db.DropAll(ctx), context.Canceled)
	if n := len(itemsOf(t, db)); n != 10 {
		t.Errorf("%d keys are left", n)
	}
	testkit.Must(t, db.Close())
}

// Writers go on while prefixes are dropped. What was committed outside of the
// prefix stays; inside, exactly what was committed after the last drop.
func TestDropPrefix_UnderLoadLosesNoCommit(t *testing.T) {
	t.Parallel()
	dropUnderLoad(t, "keep/", func(db *stoat.DB) error { return db.DropPrefix(t.Context(), []byte("drop/")) })
}

func TestDropAll_UnderLoadLosesNoCommit(t *testing.T) {
	t.Parallel()
	dropUnderLoad(t, "", func(db *stoat.DB) error { return db.DropAll(t.Context()) })
}

// dropUnderLoad drops again and again beside writers and a reader. Keys that begin
// with kept must all be there in the end; none are, if it is empty.
func dropUnderLoad(t *testing.T, kept string, drop func(*stoat.DB) error) {
	t.Helper()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
	const writers, commits = 4, 600
	versions := make([]map[string]uint64, writers) // of each key that was set
	var wg sync.WaitGroup
	var writing atomic.Int64
	writing.Store(writers)
	for w := range writers {
		versions[w] = make(map[string]uint64)
		wg.Go(func() {
			defer writing.Add(-1)
			for i := range commits {
				keys := []string{fmt.Sprintf("drop/%d/%05d", w, i), fmt.Sprintf("keep/%d/%05d", w, i)}
				version, err := setUntilCommitted(db, keys)
				if err != nil {
					t.Error(err)
					return
				}
				for _, key := range keys {
					versions[w][key] = version
				}
			}
		})
	}
	wg.Go(func() {
		for writing.Load() > 0 {
			if err := db.View(scanAndGet); err != nil {
				t.Error(err)
			}
		}
	})
	for n := 0; n < 3 || writing.Load() > 0; n++ {
		testkit.Must(t, drop(db))
	}
	wg.Wait()
	for range 2 {
		checkDropped(t, itemsOf(t, db), versions, kept)
		testkit.Must(t, db.Close())
		db = testkit.OpenOn(t, disk, nil)
	}
	testkit.Must(t, db.Close())
}

// setUntilCommitted sets keys, the first of which it reads, and tries again
// when that is a conflict.
func setUntilCommitted(db *stoat.DB, keys []string) (version uint64, err error) {
	for {
		var tx stoat.Txn
		err := db.Update(func(t stoat.Txn) error {
			tx = t
			if _, err := tx.Get([]byte(keys[0])); !errors.Is(err, stoat.ErrNotFound) {
				return fmt.Errorf("get %s: %w", keys[0], err)
			}
			for _, key := range keys {
				if err := tx.Set([]byte(key), make([]byte, 300)); err != nil {
					return err
				}
			}
			return nil
		})
		if !errors.Is(err, stoat.ErrConflict) {
			return tx.CommitVersion(), err
		}
	}
}

func scanAndGet(tx stoat.Txn) error {
	for k := range tx.Prefix([]byte("drop/")) {
		if _, err := tx.Get(k); err != nil {
			return fmt.Errorf("%q shows in a scan, Get says %w", k, err)
		}
	}
	return tx.Err()
}

// checkDropped demands that nothing is gone that was committed after something that
// is there, and nothing at all that begins with kept.
func checkDropped(t *testing.T, got map[string]string, versions []map[string]uint64, kept string) {
	t.Helper()
	newestGone, oldestThere := uint64(0), ^uint64(0)
	for _, set := range versions {
		for key, version := range set {
			_, there := got[key]
			keep := kept != "" && strings.HasPrefix(key, kept)
			switch {
			case keep && !there:
				t.Errorf("%s of commit %d is gone", key, version)
			case keep:
			case there:
				oldestThere = min(oldestThere, version)
			default:
				newestGone = max(newestGone, version)
			}
		}
	}
	if newestGone >= oldestThere {
		t.Errorf("commit %d lost its key, commit %d before it did not", newestGone, oldestThere)
	}
}
