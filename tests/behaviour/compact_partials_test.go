package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// wantEntries compacts, and demands that tables have so many entries.
func wantEntries(t *testing.T, db *stoat.DB, want uint64) {
	t.Helper()
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	report, err := db.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	if report.Entries != want {
		t.Errorf("after Compact, tables have %d entries, want %d", report.Entries, want)
	}
}

func TestCompact_MergesOperandsThatASnapshotKept(t *testing.T) {
	t.Parallel()
	opts := testkit.Merging(stoat.Options{FS: memfs.New()})
	db, err := stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	var held []*stoat.Snapshot
	for i := range 50 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("k"), fmt.Append(nil, i)) }))
		s, err := db.Snapshot(stoat.SnapshotOptions{})
		testkit.Must(t, err)
		held = append(held, s)
	}
	wantEntries(t, db, 50)
	for _, s := range held {
		s.Close()
	}
	wantEntries(t, db, 1)
}

func TestCompact_MergesOperandsThatWereRestored(t *testing.T) {
	t.Parallel()
	opts := testkit.Merging(stoat.Options{FS: memfs.New()})
	db, err := stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	for i := range 50 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Merge([]byte("k"), fmt.Append(nil, i)) }))
	}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Renew([]byte("absent"), stoat.TTL(1)) }))
	var to bytes.Buffer
	_, err = db.Backup(t.Context(), &to, stoat.BackupOptions{})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	_, err = stoat.Restore(context.Background(), "/restored", stoat.RestoreOptions{Options: &opts}, &to)
	testkit.Must(t, err)
	db, err = stoat.Open("/restored", &opts)
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	wantEntries(t, db, 1)
}

// renewedUntil is the expiry time after n renewals. Before the first one there is none.
func renewedUntil(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(4_000_000_000+int64(n), 0)
}

// renewKeys renews keys [0, keys) that many times, in a commit for each.
func renewKeys(t *testing.T, db *stoat.DB, keys, times int) {
	t.Helper()
	for n := 1; n <= times; n++ {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range keys {
				if err := tx.Renew(testkit.Key(i), stoat.ExpiresAt(renewedUntil(n))); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

// checkRenewed demands all versions of renewed keys, with one value, and a sound database.
func checkRenewed(t *testing.T, db *stoat.DB, keys, times int, value []byte) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		for i := range keys {
			for n := times; n >= 0; n-- {
				if !it.Next() {
					return fmt.Errorf("there is no version %d of key %d: %w", n, i, it.Err())
				}
				item := it.Item()
				if v, err := item.Value(); err != nil || !bytes.Equal(v, value) || !bytes.Equal(item.Key(), testkit.Key(i)) || !item.ExpiresAt().Equal(renewedUntil(n)) {
					t.Errorf("version %d of key %d: %d bytes of %q until %v, %v", n, i, len(v), item.Key(), item.ExpiresAt(), err)
				}
			}
		}
		if it.Next() {
			t.Errorf("%q is there", it.Key())
		}
		return it.Err()
	}))
	testkit.MustBeSound(t, db)
}

func TestCollect_FreesGarbageBesideVersionsThatShareAValue(t *testing.T) {
	t.Parallel()
	const keys, kept, size, renewals = 1000, 100, 10 << 10, 9
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), NumVersions: renewals + 1, Compression: stoat.CompressionNone})
	testkit.Must(t, err)
	defer func() { testkit.Must(t, db.Close()) }()
	testkit.SetKeys(t, db, 0, keys, size, 1)
	testkit.Must(t, db.Collect(t.Context())) // flushes
	renewKeys(t, db, kept, renewals)
	testkit.DeleteKeys(t, db, kept, keys)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Collect(t.Context()))
	if s := db.Stats(); s.ValueBytes > kept*size*5/4 {
		t.Errorf("value files have %d bytes, the values %d", s.ValueBytes, kept*size)
	}
	checkRenewed(t, db, kept, renewals, bytes.Repeat([]byte{1}, size))
}

// Each eighth key has its value in the same file, so Compact writes all values anew.
func TestCompact_WritesAValueThatVersionsShareOnce(t *testing.T) {
	t.Parallel()
	const keys, files, size, renewals = 800, 8, 1000, 4
	opts := &stoat.Options{FS: memfs.New(), NumVersions: renewals + 1, Compression: stoat.CompressionNone}
	db, err := stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	value := bytes.Repeat([]byte{7}, size)
	for from := range files {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := from; i < keys; i += files {
				if err := tx.Set(testkit.Key(i), value); err != nil {
					return err
				}
			}
			return nil
		}))
		testkit.Must(t, db.Collect(t.Context())) // flushes
	}
	renewKeys(t, db, keys, renewals)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := db.Stats()
	if s.Values != 1 || s.ValueJumps != 0 {
		t.Fatalf("Compact has left the values in %d files, with %d jumps", s.Values, s.ValueJumps)
	}
	if s.ValueBytes > keys*size*5/4 {
		t.Errorf("value files have %d bytes, the values %d", s.ValueBytes, keys*size)
	}
	checkRenewed(t, db, keys, renewals, value)
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, opts)
	testkit.Must(t, err)
	checkRenewed(t, db, keys, renewals, value)
	testkit.Must(t, db.Close())
}
