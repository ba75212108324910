package behaviour

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestStats_CountOnlyGroupsThatCarryCommits(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for range 3 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) }))
		testkit.Must(t, db.Sync())
		testkit.Must(t, db.Sync())
	}
	if s := db.Stats(); s.Commits != 3 || s.Groups != 3 {
		t.Errorf("%d groups carried %d commits, want 3", s.Groups, s.Commits)
	}
}

// A feed syncs the log before it delivers a buffered commit.
func TestStats_CountNoSyncsForFeeds(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) }, stoat.WithDurability(stoat.Buffered)))
	before := db.Stats()
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		testkit.Must(t, err)
		if c.Version >= before.Version {
			break
		}
	}
	if s := db.Stats(); s.Syncs != before.Syncs || s.Latencies.Sync.Count != s.Syncs {
		t.Errorf("%d syncs, want %d, and %d took a time", s.Syncs, before.Syncs, s.Latencies.Sync.Count)
	}
}

func TestStats_TellTheSizeOfTheLogBeforeTheFirstCommit(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	onDisk := int64(0)
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			f, err := disk.Open(disk.Join(testkit.Dir, name), vfs.CatLog)
			testkit.Must(t, err)
			size, err := f.Size()
			testkit.Must(t, err)
			testkit.Must(t, f.Close())
			onDisk += size
		}
	}
	synctest.Test(t, func(t *testing.T) { // where it does not become idle
		for _, readOnly := range []bool{true, false} {
			db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = readOnly })
			s := db.Stats()
			if onDisk == 0 || s.Log.BytesOnDisk != onDisk || s.Log.Segments == 0 || s.Log.BytesWritten != 0 {
				t.Errorf("read-only %t: %+v, and %d bytes of logs are on the disk", readOnly, s.Log, onDisk)
			}
			if got := db.Stats().DiskBytes(); got != s.TableBytes+s.ValueBytes+onDisk {
				t.Errorf("read-only %t: %d bytes on the disk, want %d, %d and %d", readOnly, got, s.TableBytes, s.ValueBytes, onDisk)
			}
			testkit.Must(t, db.Close())
		}
	})
}

// A device may take long to write an edit of the manifest. What the program asks about the
// database does not wait for it.
func TestStats_DoNotWaitForTheManifest(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 100, 100, 1)
	began, written := make(chan struct{}), make(chan struct{})
	var once sync.Once
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpSyncData && strings.Contains(op.Path, "MANIFEST") {
			once.Do(func() { close(began) })
			<-written
		}
	})
	compacted, told := make(chan error, 1), make(chan struct{})
	go func() { compacted <- db.Compact(t.Context(), stoat.CompactOptions{}) }()
	<-began
	go func() {
		defer close(told)
		db.Stats()
		db.Keyspaces()
		db.Format()
	}()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("they wait for the device")
	}
	close(written)
	<-told
	testkit.Must(t, <-compacted)
	testkit.Must(t, db.Close())
}
