package behaviour

import (
	"bytes"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A transaction that writes one key again and again takes memory until the commit only. A
// snapshot would keep the memtable longer.
func TestCommit_WhatATransactionHasOverwrittenTakesNoMemoryAfterIt(t *testing.T) {
	t.Parallel()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemoryBudget: 4 << 20})
	testkit.Must(t, err)
	defer db.Close()
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	value := bytes.Repeat([]byte("v"), 1000)
	for range 20_000 {
		testkit.Must(t, tx.Set([]byte("key"), value))
	}
	testkit.Must(t, tx.Set([]byte("other"), []byte("1")))
	testkit.Must(t, tx.Commit())
	s, err := db.Snapshot(stoat.SnapshotOptions{})
	testkit.Must(t, err)
	defer s.Close()
	if m := db.Stats().Memory; m.Memtables+m.FlushedMemtables > m.Budget {
		t.Errorf("the memtables of a kilobyte take %d bytes", m.Memtables+m.FlushedMemtables)
	}
	wantKey(t, db, "key", string(value))
	wantKey(t, db, "other", "1")
}
