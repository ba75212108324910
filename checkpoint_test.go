package stoat_test

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
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const copyDir = "/copies/one"

func TestCheckpointIsADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	db := openOn(t, disk, nil)
	setAll(t, db, 3000, 3100, 700, 9)
	must(t, db.Checkpoint(t.Context(), copyDir))
	want := itemsOf(t, db)
	version := db.Stats().Version
	setAll(t, db, 0, 4000, 50, 1)
	deleteAll(t, db, 3000, 3100)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))

	both, err := stoat.Open(copyDir, &stoat.Options{FS: disk, MemtableSize: 64 << 10})
	must(t, err)
	if got := itemsOf(t, both); !maps.Equal(got, want) {
		t.Errorf("the copy has %d keys, want %d", len(got), len(want))
	}
	if got := both.Stats().Version; got != version {
		t.Errorf("the copy is at version %d, want %d", got, version)
	}
	mustBeSound(t, both)
	// Each goes its own way.
	setAll(t, both, 0, 1000, 900, 3)
	must(t, both.Compact(t.Context(), stoat.CompactOptions{}))
	mustBeSound(t, both)
	mustBeSound(t, db)
	if got := len(itemsOf(t, db)); got != 3900 {
		t.Errorf("the original has %d keys", got)
	}
	must(t, both.Close())
	must(t, db.Close())
}

// itemsOf returns all keys and values.
func itemsOf(t *testing.T, db *stoat.DB) map[string]string {
	t.Helper()
	items := make(map[string]string)
	must(t, db.View(func(tx *stoat.Txn) error {
		for k, v := range tx.All() {
			items[string(k)] = string(v)
		}
		return tx.Err()
	}))
	return items
}

func TestCheckpointOfAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, nil)
	must(t, db.Checkpoint(t.Context(), copyDir))
	must(t, db.Close())
	if got := readAll(t, disk, copyDir); len(got) != 0 {
		t.Errorf("%d keys", len(got))
	}
}

func TestCheckpointRefusesWhatExists(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, nil)
	must(t, disk.MkdirAll(copyDir))
	wantError(t, "checkpoint to a directory that is there", db.Checkpoint(t.Context(), copyDir), vfs.ErrExist)
	wantError(t, "checkpoint to a directory that is there", db.Checkpoint(t.Context(), copyDir), fs.ErrExist)
	must(t, disk.MkdirAll("/other.tmp"))
	must(t, writeFile(disk, "/other.tmp/precious", []byte("x")))
	if err := db.Checkpoint(t.Context(), "/other"); err == nil {
		t.Error("files that are not ours were removed")
	}
	if b, err := readFile(disk, "/other.tmp/precious"); err != nil || string(b) != "x" {
		t.Errorf("precious is %q, error %v", b, err)
	}
	must(t, db.Close())
	wantError(t, "checkpoint after Close", db.Checkpoint(t.Context(), "/third"), stoat.ErrClosed)
}

// TestCheckpointUnderLoadHasEverythingAcknowledgedBefore lets a writer count
// up while checkpoints are made. Each must be the state after some commit, not
// before the last one that was acknowledged when the call began.
func TestCheckpointUnderLoadHasEverythingAcknowledgedBefore(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
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
			must(t, db.Update(func(tx *stoat.Txn) error {
				err := tx.Set([]byte("count"), fmt.Append(nil, n))
				return errors.Join(err, tx.Set(treeKey(n%500), fmt.Appendf(nil, "%0*d", 1+n%2000, n)))
			}))
			acknowledged.Store(int64(n))
		}
	}()
	for i := range 12 {
		least := acknowledged.Load()
		dir := fmt.Sprintf("/copies/%d", i)
		must(t, db.Checkpoint(t.Context(), dir))
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
	must(t, db.Close())
}

// wantCountedTo demands the state after commit count.
func wantCountedTo(t *testing.T, items map[string]string, count int) {
	t.Helper()
	for n := max(1, count-499); n <= count; n++ {
		if want := fmt.Sprintf("%0*d", 1+n%2000, n); items[string(treeKey(n%500))] != want {
			t.Fatalf("after commit %d key %d has %d bytes, want %d", count, n%500, len(items[string(treeKey(n%500))]), len(want))
		}
	}
	if want := min(count, 500); len(items) != want+min(count, 1) {
		t.Errorf("after commit %d there are %d items", count, len(items))
	}
}

// TestCheckpointIsWholeOrAbsentAfterACrash cuts the power at every boundary of
// a checkpoint, in every way.
func TestCheckpointIsWholeOrAbsentAfterACrash(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	db := openOn(t, disk, nil)
	want := itemsOf(t, db)
	var states []*memfs.FS
	disk.SetHook(func(vfs.Op) { states = append(states, disk.Clone()) })
	must(t, db.Checkpoint(t.Context(), copyDir))
	disk.SetHook(nil)
	done := disk.Clone()
	must(t, db.Close())
	absent, whole := 0, 0
	for i, state := range append(states, done) {
		for k, kind := range memfs.CrashKinds() {
			crashed := state.Crash(kind, rand.New(rand.NewPCG(uint64(i), uint64(k))))
			if _, err := crashed.Stat(copyDir); errors.Is(err, vfs.ErrNotExist) {
				if state == done {
					t.Fatalf("crash %q has lost a finished checkpoint", kind)
				}
				absent++
				continue
			}
			whole++
			if got := readAll(t, crashed, copyDir); !maps.Equal(got, want) {
				t.Fatalf("boundary %d, crash %q: %d keys, want %d", i, kind, len(got), len(want))
			}
			// What was left of it does not hinder another one.
			if i%5 == 0 {
				again := openOn(t, crashed, nil)
				must(t, again.Checkpoint(t.Context(), "/copies/two"))
				must(t, again.Close())
			}
		}
	}
	if absent == 0 || whole == 0 || len(states) < 10 {
		t.Errorf("%d boundaries: %d absent, %d whole", len(states), absent, whole)
	}
}

// TestFailedCheckpointLeavesNothing makes each call of the file system fail,
// once and for good.
func TestFailedCheckpointLeavesNothing(t *testing.T) {
	t.Parallel()
	sound := newCheckedDisk(t)
	var want map[string]string
	for nth := int64(1); ; nth++ {
		disk := sound.Clone()
		faults := faultfs.New(disk)
		db, err := stoat.Open(dbDir, &stoat.Options{FS: faults})
		must(t, err)
		if want == nil {
			want = itemsOf(t, db)
		}
		rule := faults.Add(faultfs.Rule{Path: "/copies*", Nth: nth, Err: vfs.ErrIO})
		err = db.Checkpoint(t.Context(), copyDir)
		if rule.Fired() == 0 {
			must(t, err)
			must(t, db.Close())
			break
		}
		_, stat := disk.Stat(copyDir)
		if err == nil && stat != nil || err != nil && stat == nil {
			t.Fatalf("call %d fails: checkpoint says %v, its directory %v", nth, err, stat)
		}
		if err != nil {
			must(t, db.Checkpoint(t.Context(), copyDir))
		}
		if _, err := disk.Stat(copyDir + ".tmp"); !errors.Is(err, vfs.ErrNotExist) {
			t.Fatalf("call %d fails: the temporary directory is still there: %v", nth, err)
		}
		must(t, db.Close())
		if got := readAll(t, disk, copyDir); !maps.Equal(got, want) {
			t.Fatalf("call %d fails: the copy has %d keys, want %d", nth, len(got), len(want))
		}
	}
}

func TestCheckpointCopiesWhereLinksDoNotWork(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	faults := faultfs.New(disk)
	faults.Add(faultfs.Rule{Op: vfs.OpLink, Forever: true, Err: vfs.ErrUnsupported})
	db, err := stoat.Open(dbDir, &stoat.Options{FS: faults})
	must(t, err)
	want := itemsOf(t, db)
	must(t, db.Checkpoint(t.Context(), copyDir))
	must(t, db.Close())
	crashed := disk.Crash(memfs.KeepNone, nil)
	if got := readAll(t, crashed, copyDir); !maps.Equal(got, want) {
		t.Errorf("the copy has %d keys, want %d", len(got), len(want))
	}
}

func TestCheckpointLinksFilesOfTheSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "db"), filepath.Join(dir, "copy")
	db, err := stoat.Open(from, nil)
	must(t, err)
	setAll(t, db, 0, 1000, 800, 1)
	must(t, db.Checkpoint(t.Context(), to+string(filepath.Separator)))
	must(t, db.Close())
	linked := 0
	entries, err := os.ReadDir(to)
	must(t, err)
	for _, e := range entries {
		copied, err := os.Stat(filepath.Join(to, e.Name()))
		must(t, err)
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

func TestCheckpointOnAFullDiskFailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	db := openOn(t, disk, nil)
	setAll(t, db, 0, 100, 600, 1)
	disk.SetCapacity(disk.UsedBytes())
	wantError(t, "checkpoint on a full disk", db.Checkpoint(t.Context(), copyDir), stoat.ErrNoSpace)
	for _, dir := range []string{copyDir, copyDir + ".tmp"} {
		if _, err := disk.Stat(dir); !errors.Is(err, vfs.ErrNotExist) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
	disk.SetCapacity(1 << 40)
	must(t, db.Checkpoint(t.Context(), copyDir))
	must(t, db.Close())
}

func TestCheckpointEndsWithItsContext(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	db := openOn(t, disk, nil)
	setAll(t, db, 0, 100, 600, 1)
	ctx, cancel := context.WithCancel(t.Context())
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpLink {
			cancel()
		}
	})
	wantError(t, "checkpoint", db.Checkpoint(ctx, copyDir), context.Canceled)
	disk.SetHook(nil)
	if _, err := disk.Stat("/copies/one.tmp"); !errors.Is(err, vfs.ErrNotExist) {
		t.Errorf("something is left: %v", err)
	}
	must(t, db.Close())
}

func TestCheckpointHasNoFilesOfCommitsThatItDoesNotHave(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := openOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 20 })
	large := func(key string) {
		must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte(key), make([]byte, 4<<20)) }))
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
	must(t, db.Checkpoint(t.Context(), copyDir))
	disk.SetHook(nil)
	if s := db.Stats(); s.ApartBytes < 8<<20 || s.CommittedBytes < 8<<20 || s.Values != 2 {
		t.Errorf("two large commits: %+v", s)
	}
	must(t, db.Close())
	if got := readAll(t, disk, copyDir); len(got) != 1 || len(got["before"]) != 4<<20 {
		t.Errorf("the copy has %d keys", len(got))
	}
	names, err := disk.List(copyDir)
	must(t, err)
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

func TestAReaderOfACheckpointKeepsWritersOut(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	db := openOn(t, disk, nil)
	must(t, db.Checkpoint(t.Context(), copyDir))
	reader, err := stoat.Open(copyDir, &stoat.Options{FS: disk, ReadOnly: true})
	must(t, err)
	_, err = stoat.Open(copyDir, &stoat.Options{FS: disk})
	wantError(t, "writer beside a reader of the copy", err, stoat.ErrLocked)
	must(t, reader.Close())
	must(t, db.Close())
}

func TestCheckpointDoesNotTakeAnotherOneForALeftover(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	db := openOn(t, disk, nil)
	want := itemsOf(t, db)
	must(t, db.Checkpoint(t.Context(), copyDir+".tmp"))
	if err := db.Checkpoint(t.Context(), copyDir); err == nil {
		t.Error("a checkpoint was made in the place of another one")
	}
	if got := readAll(t, disk, copyDir+".tmp"); !maps.Equal(got, want) {
		t.Errorf("the first has %d keys, want %d", len(got), len(want))
	}
	must(t, db.Close())
}

// Whose rename could not be synced has two names until a crash decides. What the next
// checkpoint removes under one of them must not be missing under the other.
func TestACheckpointThatCouldNotBeSyncedIsWholeOrAbsentWhileTheNextOneReplacesIt(t *testing.T) {
	t.Parallel()
	disk := newCheckedDisk(t)
	faults := faultfs.New(disk)
	db, err := stoat.Open(dbDir, &stoat.Options{FS: faults})
	must(t, err)
	want := itemsOf(t, db)
	must(t, disk.MkdirAll("/copies"))
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir, Path: "/copie[s]", Sync: vfs.SyncKept})
	wantError(t, "a folder that cannot be synced", db.Checkpoint(t.Context(), copyDir), vfs.ErrIO)
	var states []*memfs.FS
	disk.SetHook(func(vfs.Op) { states = append(states, disk.Clone()) })
	must(t, db.Checkpoint(t.Context(), copyDir))
	disk.SetHook(nil)
	must(t, db.Close())
	whole := 0
	for i, state := range states {
		ops := len(state.Unsynced())
		for lost := -1; lost < ops; lost++ {
			crashed := state.CrashKeeping(func(op int) bool { return op != lost })
			if _, err := crashed.Stat(copyDir); errors.Is(err, vfs.ErrNotExist) {
				continue
			}
			whole++
			if got := readAll(t, crashed, copyDir); !maps.Equal(got, want) {
				t.Fatalf("boundary %d, without operation %d of %d: %d keys, want %d", i, lost, ops, len(got), len(want))
			}
		}
	}
	if whole == 0 {
		t.Errorf("no crash at %d boundaries leaves the first copy", len(states))
	}
}
