package steps

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestMemtables_OneOfTheMinimumSizeTakesMoreThanOneCommit(t *testing.T) {
	t.Parallel()
	db := openStillWith(t, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable})
	for i := range 2 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(fmt.Append(nil, i), nil) }))
	}
	if n := db.Stats().Memtables; n != 1 {
		t.Errorf("%d memtables after 2 small commits, want 1", n)
	}
}

// The commits were made with memtables of the default size.
func TestMemtables_OnesOfTheMinimumSizeAreFilledFromTheLog(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openStillWith(t, &stoat.Options{FS: disk, Durability: stoat.Buffered})
	for i := range 2000 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(fmt.Append(nil, i), nil) }))
	}
	for _, c := range []struct {
		what string
		open func(dir string, opts *stoat.Options) (*stoat.DB, error)
	}{{"a read-only database", stoat.Open}, {"a follower", stoat.OpenFollower}} {
		reader, err := c.open("/db", &stoat.Options{FS: disk.Clone(), ReadOnly: true, MemtableSize: testkit.SmallMemtable})
		testkit.Must(t, err)
		if s := reader.Stats(); s.MemtableEntries != 2000 || s.Memtables >= 20 {
			t.Errorf("%s has %d memtables of %d entries, want less than 20 of 2000", c.what, s.Memtables, s.MemtableEntries)
		}
		testkit.Must(t, reader.Close())
	}
}
