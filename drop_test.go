package stoat_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestDropAllLeavesAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, nil)
	setAll(t, db, 0, 5000, 100, 1)
	setAll(t, db, 5000, 5600, 2000, 2) // in value files
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	setAll(t, db, 2000, 7000, 50, 3)
	must(t, db.DropAll(t.Context()))
	if got := itemsOf(t, db); len(got) != 0 {
		t.Errorf("%d keys are left", len(got))
	}
	if s := db.Stats(); s.Tables != 0 || s.Values != 0 || s.GarbageFiles != 0 || s.MemtableEntries != 0 {
		t.Errorf("%d tables, %d value files, %d files of garbage, %d entries in memory are left",
			s.Tables, s.Values, s.GarbageFiles, s.MemtableEntries)
	}
	setAll(t, db, 0, 10, 10, 4)
	must(t, db.Close())
	db = openOn(t, disk, nil)
	if got := itemsOf(t, db); len(got) != 10 {
		t.Errorf("%d keys after reopening, want 10", len(got))
	}
	mustBeSound(t, db)
	must(t, db.DropAll(t.Context()))
	must(t, db.DropAll(t.Context()))
	must(t, db.Close())
}

// Tables that are deleted whole go without being read: DropAll of a large
// database must not take the time of reading it.
func TestDropAllReadsNoTableThatItDeletesWhole(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db, err := stoat.Open(dbDir, &stoat.Options{FS: disk, MemtableSize: 128 << 10})
	must(t, err)
	setAll(t, db, 0, 20_000, 100, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	size := db.Stats().TableBytes
	var read atomic.Int64
	disk.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpRead && op.Category == vfs.CatTable {
			read.Add(op.Len)
		}
	})
	must(t, db.DropAll(t.Context()))
	if n := db.Stats().Tables; n != 0 {
		t.Errorf("%d tables are left", n)
	}
	if n := read.Load(); n > size/10 {
		t.Errorf("%d bytes of %d were read", n, size)
	}
	must(t, db.Close())
}

func TestDropPrefixGivesItsSpaceBackAndLeavesTheRest(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 4000, 100, 1)
	setAll(t, db, 4000, 4400, 2000, 2) // in value files
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	before := db.Stats()
	must(t, db.DropPrefix(t.Context(), []byte("key-003")))
	// 15 % of the values: a busy database would leave them for a while.
	for i := range 6 {
		must(t, db.DropPrefix(t.Context(), fmt.Appendf(nil, "key-0041%d", i)))
	}
	const want = 3000 + 340
	if got := itemsOf(t, db); len(got) != want || got[string(treeKey(2999))] == "" || got[string(treeKey(4300))] == "" {
		t.Errorf("%d keys are left, want %d", len(got), want)
	}
	after := db.Stats()
	if after.TableBytes > before.TableBytes*8/10 || after.ValueBytes > before.ValueBytes*19/20 {
		t.Errorf("tables had %d bytes and have %d, values %d and %d",
			before.TableBytes, after.TableBytes, before.ValueBytes, after.ValueBytes)
	}
	mustBeSound(t, db)
	must(t, db.DropPrefix(t.Context(), []byte("\xff\xff")))
	must(t, db.DropPrefix(t.Context(), []byte{}))
	if got := itemsOf(t, db); len(got) != 0 {
		t.Errorf("%d keys have not the empty prefix", len(got))
	}
	must(t, db.Close())
}

func TestDropPrefixOfTheLastKeysHasNoEnd(t *testing.T) {
	t.Parallel()
	db := openMem(t)
	setKeys(t, db, "a \xfe \xff\x01 \xff\xff "+string(lastKey[1:])+" "+string(lastKey))
	for _, step := range []struct{ prefix, left string }{
		{string(lastKey), "a \xfe \xff\x01 \xff\xff " + string(lastKey[1:])},
		{"\xff\xff", "a \xfe \xff\x01"},
		{"\xff", "a \xfe"},
	} {
		must(t, db.DropPrefix(t.Context(), []byte(step.prefix)))
		must(t, db.View(func(tx *stoat.Txn) error {
			wantKeys(t, fmt.Sprintf("without %.10q", step.prefix), tx, step.left)
			return nil
		}))
	}
	mustBeSound(t, db)
}

func TestAnOpenTransactionSeesWhatIsDroppedAndTheSpaceFollows(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	setAll(t, db, 0, 3000, 100, 1)
	tx := begin(t, db, stoat.ReadOnly)
	must(t, db.DropAll(t.Context()))
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
	eventually(t, "the space comes back by itself", func() bool { s := db.Stats(); return s.Tables == 0 && s.GarbageFiles == 0 })
	must(t, db.Close())
}

func TestDropStopsWhenItsContextDoes(t *testing.T) {
	t.Parallel()
	db := openMem(t)
	setAll(t, db, 0, 10, 10, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantError(t, "drop", db.DropAll(ctx), context.Canceled)
	if n := len(itemsOf(t, db)); n != 10 {
		t.Errorf("%d keys are left", n)
	}
	must(t, db.Close())
}

// Writers go on while prefixes are dropped. What was committed outside of the
// prefix stays; inside, exactly what was committed after the last drop.
func TestDropPrefixUnderLoadLosesNobodysCommit(t *testing.T) {
	t.Parallel()
	dropUnderLoad(t, "keep/", func(db *stoat.DB) error { return db.DropPrefix(t.Context(), []byte("drop/")) })
}

func TestDropAllUnderLoadLosesNobodysCommit(t *testing.T) {
	t.Parallel()
	dropUnderLoad(t, "", func(db *stoat.DB) error { return db.DropAll(t.Context()) })
}

// dropUnderLoad drops again and again beside writers and a reader. Keys that begin
// with kept must all be there in the end; none are, if it is empty.
func dropUnderLoad(t *testing.T, kept string, drop func(*stoat.DB) error) {
	t.Helper()
	disk := memfs.New()
	db := openOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
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
		must(t, drop(db))
	}
	wg.Wait()
	for range 2 {
		checkDropped(t, itemsOf(t, db), versions, kept)
		must(t, db.Close())
		db = openOn(t, disk, nil)
	}
	must(t, db.Close())
}

// setUntilCommitted sets keys, the first of which it reads, and tries again
// when that is a conflict.
func setUntilCommitted(db *stoat.DB, keys []string) (version uint64, err error) {
	for {
		var tx *stoat.Txn
		err := db.Update(func(t *stoat.Txn) error {
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

func scanAndGet(tx *stoat.Txn) error {
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
