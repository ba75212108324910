package behaviour

import (
	"bytes"
	"context"
	"fmt"
	"testing"

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
