package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/stamp"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	discardKeys     = 2000
	discardVersions = 20
)

// versionsOfEntries yields versions 1 to discardVersions of each key.
func versionsOfEntries(yield func(stoat.Entry, error) bool) {
	for i := range discardKeys {
		for at := discardVersions; at > 0; at-- {
			if !yield(stoat.Entry{Key: fmt.Appendf(nil, "key-%06d", i), Value: make([]byte, 100), Timestamp: uint64(at)}, nil) {
				return
			}
		}
	}
}

// commitVersions is versionsOfEntries in commits.
func commitVersions(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
	t.Helper()
	for at := range discardVersions {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range discardKeys {
				if err := tx.In(ks).At(uint64(1+at)).Set(fmt.Appendf(nil, "key-%06d", i), make([]byte, 100)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func TestDiscardBelow_FreesVersionsHoweverTheyCame(t *testing.T) {
	t.Parallel()
	for name, load := range map[string]func(t *testing.T, db *stoat.DB, ks *stoat.Keyspace){
		"commits": commitVersions,
		"ingest": func(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
			_, err := db.IngestEntries(context.Background(), iter.Seq2[stoat.Entry, error](versionsOfEntries), stoat.IngestOptions{Keyspace: ks})
			testkit.Must(t, err)
		},
		"bulk load": func(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
			_, err := db.BulkLoad(context.Background(), iter.Seq2[stoat.Entry, error](versionsOfEntries), stoat.IngestOptions{Keyspace: ks})
			testkit.Must(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				db, ks := openTimed(t, 128<<10)
				load(t, db, ks)
				idleFreesDiscarded(t, db, ks)
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				testkit.Must(t, db.Close())
			})
		})
	}
}

// idleFreesDiscarded discards all versions of the keys but the latest, in two steps. It demands
// that an idle database frees their space, and still has the latest ones.
func idleFreesDiscarded(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
	t.Helper()
	time.Sleep(time.Hour) // idle: everything is in the last level
	before := db.Stats().TableContent
	if least := int64(discardKeys * discardVersions * 100); before < least {
		t.Errorf("tables have %d bytes before the discard, want at least %d", before, least)
	}
	testkit.Must(t, ks.DiscardBelow(discardVersions/2))
	time.Sleep(time.Hour)
	if after := db.Stats().TableContent; after > before*3/4 {
		t.Errorf("an hour after the first point, %d bytes of %d are left", after, before)
	}
	testkit.Must(t, ks.DiscardBelow(discardVersions))
	time.Sleep(time.Hour)
	if after := db.Stats().TableContent; after > before/(discardVersions/2) {
		t.Errorf("%d bytes of %d are left", after, before)
	}
	wantVersionAt(t, db, ks, discardVersions, discardKeys)
}

// wantVersionAt demands that n keys have a version of 100 bytes at a timestamp, and that no key shows an
// earlier one there.
func wantVersionAt(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, at uint64, n int) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		shown := 0
		it := tx.In(ks).At(at).Iterator(stoat.IterOptions{})
		for ; it.Next(); shown++ {
			if got := it.Item().Timestamp(); got != at || len(it.Value()) != 100 {
				t.Errorf("%q shows %d bytes of version %d, want 100 of %d", it.Key(), len(it.Value()), got, at)
			}
		}
		if shown != n {
			t.Errorf("%d keys at timestamp %d, want %d", shown, at, n)
		}
		return it.Close()
	}))
}

// wantDiscarded is idleFreesDiscarded in a database that was opened, and closes it.
func wantDiscarded(t *testing.T, db *stoat.DB) {
	t.Helper()
	ks, err := db.Keyspace("timed", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("other"), nil) }))
	idleFreesDiscarded(t, db, ks)
	testkit.Must(t, db.Close())
}

// A restore writes its tables to the last level at once.
func TestDiscardBelow_FreesVersionsOfARestoredDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, ks := openTimed(t, 128<<10)
		commitVersions(t, db, ks)
		var b bytes.Buffer
		_, err := db.Backup(t.Context(), &b, stoat.BackupOptions{})
		testkit.Must(t, err)
		testkit.Must(t, db.Close())
		disk := memfs.New()
		_, err = stoat.Restore(t.Context(), testkit.Dir, stoat.RestoreOptions{Options: &stoat.Options{FS: disk, MemtableSize: 128 << 10}}, &b)
		testkit.Must(t, err)
		db = testkit.OpenOn(t, disk, nil)
		wantDiscarded(t, db)
	})
}

// Salvage writes its tables to the last level, too.
func TestDiscardBelow_FreesVersionsOfASalvagedDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
		testkit.Must(t, err)
		_, err = db.IngestEntries(t.Context(), iter.Seq2[stoat.Entry, error](versionsOfEntries), stoat.IngestOptions{Keyspace: ks})
		testkit.Must(t, err)
		testkit.Must(t, db.Close())
		_, err = stoat.Salvage(t.Context(), testkit.Dir, testkit.CopyDir, stoat.SalvageOptions{FS: disk})
		testkit.Must(t, err)
		db, err = stoat.Open(testkit.CopyDir, &stoat.Options{FS: disk, MemtableSize: 128 << 10})
		testkit.Must(t, err)
		wantDiscarded(t, db)
	})
}

// A follower writes what only the log has to tables of the copy.
func TestDiscardBelow_FreesVersionsOfACheckpointByAFollower(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 32 << 20 })
		ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
		testkit.Must(t, err)
		commitVersions(t, db, ks)
		f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: -1})
		testkit.Must(t, err)
		testkit.Must(t, f.Checkpoint(t.Context(), testkit.CopyDir))
		testkit.Must(t, f.Close())
		testkit.Must(t, db.Close())
		db, err = stoat.Open(testkit.CopyDir, &stoat.Options{FS: disk, MemtableSize: 128 << 10})
		testkit.Must(t, err)
		wantDiscarded(t, db)
	})
}

// commitDeletions commits 20 versions of all keys, and deletes every second key at the last
// timestamp. Then it commits 20 more of the others.
func commitDeletions(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) {
	t.Helper()
	commitVersions(t, db, ks)
	for at := uint64(discardVersions); at <= 2*discardVersions; at++ {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range discardKeys {
				key, timed := fmt.Appendf(nil, "key-%06d", i), tx.In(ks).At(at)
				switch {
				case at == discardVersions && i%2 == 1:
					testkit.Must(t, timed.Delete(key))
				case at > discardVersions && i%2 == 0:
					testkit.Must(t, timed.Set(key, make([]byte, 100)))
				}
			}
			return nil
		}))
	}
}

// timedDeletions counts the versions of a keyspace that are deletions.
func timedDeletions(t *testing.T, db *stoat.DB, ks *stoat.Keyspace) (n int) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.In(ks).At(math.MaxUint64).Iterator(stoat.IterOptions{AllVersions: true})
		for it.Next() {
			if it.Item().Deleted() {
				n++
			}
		}
		return it.Close()
	}))
	return n
}

// openTimed opens a new database with memtables of a size, and a keyspace with timestamps.
func openTimed(t *testing.T, memtable int64) (*stoat.DB, *stoat.Keyspace) {
	t.Helper()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = memtable })
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	return db, ks
}

// lastLevel returns how many tables the last level has. At most one in ten may end between the
// versions of a key: one does if versions arrived after a table that begins with that key.
func lastLevel(t *testing.T, db *inside.DB) int {
	t.Helper()
	v := db.Engine.Store.Version()
	tables, between := v.Levels[len(v.Levels)-1], 0
	for i := 1; i < len(tables); i++ {
		if bytes.Equal(stamp.KeyOf(tables[i-1].Largest), stamp.KeyOf(tables[i].Smallest)) {
			between++
		}
	}
	if 10*between > len(tables) {
		t.Errorf("%d of %d tables end between the versions of a key", between, len(tables))
	}
	return len(tables)
}

// openTimedInside opens a database whose versions the test looks at, and a keyspace with
// timestamps in it.
func openTimedInside(t *testing.T) (*inside.DB, *stoat.Keyspace) {
	t.Helper()
	db, err := inside.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: 128 << 10}, work.Executor{})
	testkit.Must(t, err)
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	return db, ks
}

// Each table of the last level is merged for itself. So few may end between a deletion and the
// versions that it hides.
func TestDiscardBelow_DropsDeletionsBecauseTablesEndBetweenKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, ks := openTimedInside(t)
		commitDeletions(t, db.DB, ks)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		before, tables := timedDeletions(t, db.DB, ks), lastLevel(t, db)
		if before != discardKeys/2 || tables < 10 {
			t.Errorf("%d deletions in %d tables, want %d in 10 or more", before, tables, discardKeys/2)
		}
		testkit.Must(t, ks.DiscardBelow(discardVersions))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		if after := timedDeletions(t, db.DB, ks); after > 0 {
			t.Errorf("%d deletions of %d stay", after, before)
		}
		wantVersionAt(t, db.DB, ks, 2*discardVersions, discardKeys/2)
		testkit.Must(t, db.Close())
	})
}

// The latest version of a key arrives when a table of the last level begins with that key. So it
// lies in a table before that one.
func TestDiscardBelow_DropsVersionsBehindTheEndOfATable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, ks := openTimedInside(t)
		commitVersions(t, db.DB, ks)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		v := db.Engine.Store.Version()
		tables := v.Levels[len(v.Levels)-1]
		key, _, ok := stamp.Decode(tables[len(tables)/2].Smallest[2:], nil) // behind the number of the keyspace
		if !ok || len(tables) < 10 {
			t.Fatalf("%d tables, and the middle one begins with %q", len(tables), key)
		}
		const later = discardVersions + 1
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(later).Set(key, make([]byte, 100)) }))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, ks.DiscardBelow(later))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		report, err := db.Check(t.Context(), stoat.CheckOptions{})
		testkit.Must(t, err)
		if report.Entries != discardKeys {
			t.Errorf("tables have %d versions of %d keys", report.Entries, discardKeys)
		}
		testkit.Must(t, db.Close())
	})
}

// Each time that the point rises it makes nothing garbage, or what an earlier merge left.
func TestDiscardBelow_RaisesThatMakeNoGarbageCauseNoMerges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, ks := openTimed(t, 128<<10)
		commitDeletions(t, db, ks)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		var merged [101]int64
		for i := range merged {
			testkit.Must(t, ks.DiscardBelow(2*discardVersions+uint64(i)))
			time.Sleep(time.Minute)
			merged[i] = db.Stats().CompactedBytes
		}
		if few, all := merged[5], merged[100]; all > few {
			t.Errorf("merges wrote %d bytes in 5 minutes, and %d more later", few-merged[0], all-few)
		}
		testkit.Must(t, db.Close())
	})
}

// setVersions commits value as the version at a timestamp of 5000 keys; nil deletes them.
func setVersions(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, at uint64, value []byte) {
	t.Helper()
	for from := 0; from < 5000; from += 50 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			timed := tx.In(ks).At(at)
			for i := range 50 {
				key := fmt.Appendf(nil, "key-%06d", from+i)
				if value == nil {
					testkit.Must(t, timed.Delete(key))
				} else {
					testkit.Must(t, timed.Set(key, value))
				}
			}
			return nil
		}, stoat.WithDurability(stoat.Buffered)))
	}
}

// Everything is deleted. A commit of another keyspace is in memory when the point rises, so
// that the first jobs cannot tell whether it has older versions.
func TestTimestamps_DiscardedDeletionsGoOnceTablesHaveAllCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, ks := openTimed(t, testkit.LargeMemtable)
		setVersions(t, db, ks, 1, make([]byte, 20))
		setVersions(t, db, ks, 2, nil)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("other"), nil) }))
		testkit.Must(t, ks.DiscardBelow(3))
		time.Sleep(time.Hour)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		if n := db.Stats().TableBytes; n > 10_000 {
			t.Errorf("tables have %d bytes of deletions", n)
		}
		testkit.Must(t, db.Close())
	})
}

// A transaction is open during the first Compact. The second one frees what the first had to
// keep, and the third finds nothing to do.
func TestTimestamps_DiscardedVersionsGoAfterATransactionHeldThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, ks := openTimed(t, 128<<10)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("other"), nil) }))
		open := testkit.Begin(t, db, stoat.ReadOnly)
		const versions = 5
		for at := range versions {
			setVersions(t, db, ks, uint64(1+at), make([]byte, 20))
		}
		testkit.Must(t, ks.DiscardBelow(versions))
		compact := func() (bytes int64, compactions int64) {
			before := db.Stats().Compactions
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			time.Sleep(time.Hour)
			return db.Stats().TableBytes, db.Stats().Compactions - before
		}
		held, _ := compact()
		open.Discard()
		time.Sleep(time.Hour)
		if left, _ := compact(); left > held/(versions-1) {
			t.Errorf("tables have %d bytes, and %d while the transaction was open", left, held)
		}
		if _, n := compact(); n != 0 {
			t.Errorf("%d more compactions", n)
		}
		testkit.Must(t, db.Close())
	})
}
