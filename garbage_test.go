package stoat_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestNewFilesGetNumbersAboveOrphansThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	must(t, openOn(t, disk, nil).Close())
	// More than a flush and a compaction take, and one that is not of this world.
	var orphans []string
	for n := range base.FileNum(100) {
		orphans = append(orphans, base.TableName(n), base.ValueName(n))
	}
	orphans = append(orphans, base.TableName(1<<62))
	for _, name := range orphans {
		f, err := disk.Create(disk.Join(dbDir, name), vfs.CatTable)
		must(t, err)
		must(t, f.Close())
	}
	faults := faultfs.New(disk)
	for _, pattern := range []string{"*.table", "*.values"} {
		faults.Add(faultfs.Rule{Op: vfs.OpRemove, Path: pattern, Forever: true, Err: errors.New("permission denied")})
	}
	db, err := stoat.Open(dbDir, &stoat.Options{FS: faults, MemtableSize: 128 << 10})
	must(t, err)
	setAll(t, db, 0, 100, 3000, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	must(t, db.Close())

	names, err := disk.List(dbDir)
	must(t, err)
	all := strings.Join(names, " ")
	for _, name := range orphans {
		if !strings.Contains(all, name) {
			t.Errorf("%s is gone: it could be deleted", name)
		}
	}
	reopened := openOn(t, disk, nil)
	mustBeSound(t, reopened)
	must(t, reopened.Close())
}

// A transaction that ends while Close still flushes is the last reader, but
// not the last user of the memory.
func TestTheLastTransactionMayEndWhileCloseFlushes(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 4 << 20 })
	setAll(t, db, 0, 3000, 300, 1) // more than Close leaves in the log
	tx, err := db.Begin(stoat.ReadOnly)
	must(t, err)
	flushing, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Path, ".table") {
			once.Do(func() { close(flushing); <-ended })
		}
	})
	closed := make(chan error, 1)
	go func() { closed <- db.Close() }()
	<-flushing
	tx.Discard()
	close(ended)
	must(t, <-closed)
	disk.SetHook(nil)

	db = openOn(t, disk, nil)
	if s := db.Stats(); s.Tables == 0 {
		t.Error("Close has flushed nothing")
	}
	mustBeSound(t, db)
	value := strings.Repeat("\x01", 300)
	must(t, db.View(func(tx *stoat.Txn) error {
		n := 0
		for _, v := range tx.All() {
			if string(v) != value {
				t.Fatalf("value %d has changed", n)
			}
			n++
		}
		if n != 3000 {
			t.Errorf("%d keys, want 3000", n)
		}
		return tx.Err()
	}))
	must(t, db.Close())
}
