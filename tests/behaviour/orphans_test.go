package behaviour

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestOrphans_NewFilesGetNumbersAboveThem(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	testkit.Must(t, testkit.OpenOn(t, disk, nil).Close())
	// More than a flush and a compaction take, and one that is not of this world.
	var orphans []string
	for n := range base.FileNum(100) {
		orphans = append(orphans, base.TableName(n), base.ValueName(n))
	}
	orphans = append(orphans, base.TableName(1<<62))
	for _, name := range orphans {
		f, err := disk.Create(disk.Join(testkit.Dir, name), vfs.CatTable)
		testkit.Must(t, err)
		testkit.Must(t, f.Close())
	}
	faults := faultfs.New(disk)
	for _, pattern := range []string{"*.table", "*.values"} {
		faults.Add(faultfs.Rule{Op: vfs.OpRemove, Path: pattern, Forever: true, Err: errors.New("permission denied")})
	}
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 128 << 10})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 100, 3000, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())

	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	all := strings.Join(names, " ")
	for _, name := range orphans {
		if !strings.Contains(all, name) {
			t.Errorf("%s is gone: it could be deleted", name)
		}
	}
	reopened := testkit.OpenOn(t, disk, nil)
	testkit.MustBeSound(t, reopened)
	testkit.Must(t, reopened.Close())
}

// A transaction that ends while Close still flushes is the last reader, but
// not the last user of the memory.
func TestClose_LastTransactionMayEndWhileItFlushes(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 4 << 20 })
	testkit.SetKeys(t, db, 0, 3000, 300, 1) // more than Close leaves in the log
	tx, err := db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
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
	testkit.Must(t, <-closed)
	disk.SetHook(nil)

	db = testkit.OpenOn(t, disk, nil)
	if s := db.Stats(); s.Tables == 0 {
		t.Error("Close has flushed nothing")
	}
	testkit.MustBeSound(t, db)
	value := strings.Repeat("\x01", 300)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
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
	testkit.Must(t, db.Close())
}
