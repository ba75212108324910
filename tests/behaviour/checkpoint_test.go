package behaviour

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestCheckpoint_IsADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 3000, 3100, 700, 9)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	want := itemsOf(t, db)
	version := db.Stats().Version
	testkit.SetKeys(t, db, 0, 4000, 50, 1)
	testkit.DeleteKeys(t, db, 3000, 3100)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))

	both, err := stoat.Open(testkit.CopyDir, &stoat.Options{FS: disk, MemtableSize: 64 << 10})
	testkit.Must(t, err)
	if got := itemsOf(t, both); !maps.Equal(got, want) {
		t.Errorf("the copy has %d keys, want %d", len(got), len(want))
	}
	if got := both.Stats().Version; got != version {
		t.Errorf("the copy is at version %d, want %d", got, version)
	}
	testkit.MustBeSound(t, both)
	// Each goes its own way.
	testkit.SetKeys(t, both, 0, 1000, 900, 3)
	testkit.Must(t, both.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.MustBeSound(t, both)
	testkit.MustBeSound(t, db)
	if got := len(itemsOf(t, db)); got != 3900 {
		t.Errorf("the original has %d keys", got)
	}
	testkit.Must(t, both.Close())
	testkit.Must(t, db.Close())
}

// itemsOf returns all keys and values.
func itemsOf(t *testing.T, db *stoat.DB) map[string]string {
	t.Helper()
	items := make(map[string]string)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for k, v := range tx.All() {
			items[string(k)] = string(v)
		}
		return tx.Err()
	}))
	return items
}

func TestCheckpoint_OfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	testkit.Must(t, db.Close())
	if got := readAll(t, disk, testkit.CopyDir); len(got) != 0 {
		t.Errorf("%d keys", len(got))
	}
}

func TestCheckpoint_RefusesAnExistingDirectory(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, disk.MkdirAll(testkit.CopyDir))
	testkit.WantError(t, "checkpoint to a directory that is there", db.Checkpoint(t.Context(), testkit.CopyDir), vfs.ErrExist)
	testkit.WantError(t, "checkpoint to a directory that is there", db.Checkpoint(t.Context(), testkit.CopyDir), fs.ErrExist)
	testkit.Must(t, disk.MkdirAll("/other.tmp"))
	testkit.Must(t, testkit.WriteFile(disk, "/other.tmp/precious", []byte("x")))
	if err := db.Checkpoint(t.Context(), "/other"); err == nil {
		t.Error("files that are not ours were removed")
	}
	if b, err := testkit.ReadFile(disk, "/other.tmp/precious"); err != nil || string(b) != "x" {
		t.Errorf("precious is %q, error %v", b, err)
	}
	testkit.Must(t, db.Close())
	testkit.WantError(t, "checkpoint after Close", db.Checkpoint(t.Context(), "/third"), stoat.ErrClosed)
}

// TestCheckpoint_UnderLoadHasEverythingAcknowledgedBefore lets a writer count
// up while checkpoints are made. Each must be the state after some commit, not
// before the last one that was acknowledged when the call began.
func TestCheckpoint_UnderLoadHasEverythingAcknowledgedBefore(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	var acknowledged atomic.Int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				err := tx.Set([]byte("count"), fmt.Append(nil, n))
				return errors.Join(err, tx.Set(testkit.Key(n%500), fmt.Appendf(nil, "%0*d", 1+n%2000, n)))
			}))
			acknowledged.Store(int64(n))
		}
	}()
	for i := range 12 {
		least := acknowledged.Load()
		dir := fmt.Sprintf("/copies/%d", i)
		testkit.Must(t, db.Checkpoint(t.Context(), dir))
		most := acknowledged.Load() + 1
		var count int64
		items := readAll(t, disk, dir)
		if _, err := fmt.Sscan(items["count"], &count); err != nil && least > 0 {
			t.Fatal(err)
		}
		if count < least || count > most {
			t.Errorf("the copy has %d commits, want %d to %d", count, least, most)
		}
		wantCountedTo(t, items, int(count))
	}
	close(stop)
	<-ended
	testkit.Must(t, db.Close())
}

// wantCountedTo demands the state after commit count.
func wantCountedTo(t *testing.T, items map[string]string, count int) {
	t.Helper()
	for n := max(1, count-499); n <= count; n++ {
		if want := fmt.Sprintf("%0*d", 1+n%2000, n); items[string(testkit.Key(n%500))] != want {
			t.Fatalf("after commit %d key %d has %d bytes, want %d", count, n%500, len(items[string(testkit.Key(n%500))]), len(want))
		}
	}
	if want := min(count, 500); len(items) != want+min(count, 1) {
		t.Errorf("after commit %d there are %d items", count, len(items))
	}
}

// TestCheckpoint_IsWholeOrAbsentAfterACrash cuts the power at every boundary of
// a checkpoint, in every way.
func TestCheckpoint_IsWholeOrAbsentAfterACrash(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	want := itemsOf(t, db)
	stop := testkit.States(disk)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	states, done := stop(), disk.Clone()
	testkit.Must(t, db.Close())
	absent, whole := 0, 0
	for i, s := range append(states, testkit.State{Disk: done}) {
		state := s.Disk
		for k, kind := range memfs.CrashKinds() {
			if state != done && (i+k)%testkit.Raced(1, 5) != 0 {
				continue
			}
			crashed := state.Crash(kind, rand.New(rand.NewPCG(uint64(i), uint64(k))))
			if _, err := crashed.Stat(testkit.CopyDir); errors.Is(err, vfs.ErrNotExist) {
				if state == done {
					t.Fatalf("crash %q has lost a finished checkpoint", kind)
				}
				absent++
				continue
			}
			whole++
			if got := readAll(t, crashed, testkit.CopyDir); !maps.Equal(got, want) {
				t.Fatalf("boundary %d, crash %q: %d keys, want %d", i, kind, len(got), len(want))
			}
			// What was left of it does not hinder another one.
			if i%5 == 0 {
				again := testkit.OpenOn(t, crashed, nil)
				testkit.Must(t, again.Checkpoint(t.Context(), "/copies/two"))
				testkit.Must(t, again.Close())
			}
		}
	}
	if absent == 0 || whole == 0 || len(states) < 10 {
		t.Errorf("%d boundaries: %d absent, %d whole", len(states), absent, whole)
	}
}

// TestCheckpoint_LeavesNothingWhenItFails makes each call of the file system fail,
// once and for good.
func TestCheckpoint_LeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	sound := testkit.NewSampleDisk(t)
	var want map[string]string
	for nth := int64(1); ; nth++ {
		disk := sound.Clone()
		faults := faultfs.New(disk)
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
		testkit.Must(t, err)
		if want == nil {
			want = itemsOf(t, db)
		}
		rule := faults.Add(faultfs.Rule{Path: "/copies*", Nth: nth, Err: vfs.ErrIO})
		err = db.Checkpoint(t.Context(), testkit.CopyDir)
		if rule.Fired() == 0 {
			testkit.Must(t, err)
			testkit.Must(t, db.Close())
			break
		}
		_, stat := disk.Stat(testkit.CopyDir)
		if err == nil && stat != nil || err != nil && stat == nil {
			t.Fatalf("call %d fails: checkpoint says %v, its directory %v", nth, err, stat)
		}
		if err != nil {
			testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
		}
		if _, err := disk.Stat(testkit.CopyDir + ".tmp"); !errors.Is(err, vfs.ErrNotExist) {
			t.Fatalf("call %d fails: the temporary directory is still there: %v", nth, err)
		}
		testkit.Must(t, db.Close())
		if got := readAll(t, disk, testkit.CopyDir); !maps.Equal(got, want) {
			t.Fatalf("call %d fails: the copy has %d keys, want %d", nth, len(got), len(want))
		}
	}
}

func TestCheckpoint_CopiesWhereLinksDoNotWork(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	faults := faultfs.New(disk)
	faults.Add(faultfs.Rule{Op: vfs.OpLink, Forever: true, Err: vfs.ErrUnsupported})
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	want := itemsOf(t, db)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	testkit.Must(t, db.Close())
	crashed := disk.Crash(memfs.KeepNone, nil)
	if got := readAll(t, crashed, testkit.CopyDir); !maps.Equal(got, want) {
		t.Errorf("the copy has %d keys, want %d", len(got), len(want))
	}
}

func TestCheckpoint_LinksFilesOfTheSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "db"), filepath.Join(dir, "copy")
	db, err := stoat.Open(from, nil)
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 1000, 800, 1)
	testkit.Must(t, db.Checkpoint(t.Context(), to+string(filepath.Separator)))
	testkit.Must(t, db.Close())
	linked := 0
	entries, err := os.ReadDir(to)
	testkit.Must(t, err)
	for _, e := range entries {
		copied, err := os.Stat(filepath.Join(to, e.Name()))
		testkit.Must(t, err)
		if own, err := os.Stat(filepath.Join(from, e.Name())); err == nil && os.SameFile(own, copied) {
			linked++
		}
	}
	if linked < 2 {
		t.Errorf("%d of %d files are shared", linked, len(entries))
	}
	if got := readAll(t, vfs.OS(), to); len(got) != 1000 {
		t.Errorf("%d keys", len(got))
	}
}

func TestCheckpoint_OnAFullDiskFailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 100, 600, 1)
	disk.SetCapacity(disk.UsedBytes() / 2) // background jobs may give space back meanwhile
	testkit.WantError(t, "checkpoint on a full disk", db.Checkpoint(t.Context(), testkit.CopyDir), stoat.ErrNoSpace)
	for _, dir := range []string{testkit.CopyDir, testkit.CopyDir + ".tmp"} {
		if _, err := disk.Stat(dir); !errors.Is(err, vfs.ErrNotExist) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
	disk.SetCapacity(1 << 40)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	testkit.Must(t, db.Close())
}

func TestCheckpoint_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 100, 600, 1)
	ctx, cancel := context.WithCancel(t.Context())
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpLink {
			cancel()
		}
	})
	testkit.WantError(t, "checkpoint", db.Checkpoint(ctx, testkit.CopyDir), context.Canceled)
	disk.SetHook(nil)
	if _, err := disk.Stat("/copies/one.tmp"); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	testkit.Must(t, db.Close())
}

func TestCheckpoint_HasNoFilesOfLaterCommits(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 20 })
	large := func(key string) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), make([]byte, 4<<20)) }))
	}
	large("before")
	// The manifest of the copy is made after the flush: what is committed there
	// comes too late.
	var late atomic.Bool
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpMkdir && late.CompareAndSwap(false, true) {
			large("after")
		}
	})
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	disk.SetHook(nil)
	if s := db.Stats(); s.ApartBytes < 8<<20 || s.CommittedBytes < 8<<20 || s.Values != 2 {
		t.Errorf("two large commits: %+v", s)
	}
	testkit.Must(t, db.Close())
	if got := readAll(t, disk, testkit.CopyDir); len(got) != 1 || len(got["before"]) != 4<<20 {
		t.Errorf("the copy has %d keys", len(got))
	}
	names, err := disk.List(testkit.CopyDir)
	testkit.Must(t, err)
	values := 0
	for _, name := range names {
		if _, ok := base.ParseValueName(name); ok {
			values++
		}
	}
	if values != 1 {
		t.Errorf("there are %d value files among %q", values, names)
	}
}

func TestCheckpoint_ReaderKeepsWritersOut(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	reader, err := stoat.Open(testkit.CopyDir, &stoat.Options{FS: disk, ReadOnly: true})
	testkit.Must(t, err)
	_, err = stoat.Open(testkit.CopyDir, &stoat.Options{FS: disk})
	testkit.WantError(t, "writer beside a reader of the copy", err, stoat.ErrLocked)
	testkit.Must(t, reader.Close())
	testkit.Must(t, db.Close())
}

func TestCheckpoint_RefusesToReplaceAnotherCheckpoint(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	want := itemsOf(t, db)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir+".tmp"))
	if err := db.Checkpoint(t.Context(), testkit.CopyDir); err == nil {
		t.Error("a checkpoint was made in the place of another one")
	}
	if got := readAll(t, disk, testkit.CopyDir+".tmp"); !maps.Equal(got, want) {
		t.Errorf("the first has %d keys, want %d", len(got), len(want))
	}
	testkit.Must(t, db.Close())
}

// Whose rename could not be synced has two names until a crash decides. What the next
// checkpoint removes under one of them must not be missing under the other.
func TestCheckpoint_UnsyncedOneIsWholeOrAbsentWhileTheNextReplacesIt(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	faults := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	want := itemsOf(t, db)
	testkit.Must(t, disk.MkdirAll("/copies"))
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: "/copie[s]", Nth: 2, Sync: vfs.SyncKept}) // the first is that of MkdirAll
	testkit.WantError(t, "a folder that cannot be synced", db.Checkpoint(t.Context(), testkit.CopyDir), vfs.ErrIO)
	stop := testkit.States(disk)
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	states := stop()
	testkit.Must(t, db.Close())
	whole := 0
	for i, state := range states {
		ops := len(state.Disk.Unsynced())
		for lost := -1; lost < ops; lost++ {
			crashed := state.Disk.CrashKeeping(func(op int) bool { return op != lost })
			if _, err := crashed.Stat(testkit.CopyDir); errors.Is(err, vfs.ErrNotExist) {
				continue
			}
			whole++
			if got := readAll(t, crashed, testkit.CopyDir); !maps.Equal(got, want) {
				t.Fatalf("boundary %d, without operation %d of %d: %d keys, want %d", i, lost, ops, len(got), len(want))
			}
		}
	}
	if whole == 0 {
		t.Errorf("no crash at %d boundaries leaves the first copy", len(states))
	}
}
