package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestFollowerCheckpoint_HasWhatTheWriterHasCommitted(t *testing.T) {
	t.Parallel()
	for _, keys := range []stoat.KeyProvider{nil, testkit.KeysIf(true)} {
		// In a bubble no second passes, after which an idle writer flushes.
		synctest.Test(t, func(t *testing.T) {
			disk := memfs.New()
			o := func(o *stoat.Options) { o.Keys = keys }
			db := testkit.OpenOn(t, disk, o)
			times, err := db.Keyspace("times", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
			testkit.Must(t, err)
			testkit.SetKeys(t, db, 0, 3000, 700, 1)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			calls := faultfs.New(disk) // of the follower
			for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpRename, vfs.OpRemove, vfs.OpWrite, vfs.OpTruncate, vfs.OpPreallocate} {
				calls.Add(faultfs.Rule{Op: op, Path: testkit.Dir + "/*", Forever: true})
			}
			f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: calls, FollowEvery: -1, Keys: keys})
			testkit.Must(t, err)
			// The rest is in the log only.
			testkit.DeleteKeys(t, db, 100, 200)
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				return errors.Join(tx.DeleteRange(testkit.Key(300), testkit.Key(400)),
					tx.Set([]byte("large"), bytes.Repeat([]byte{'v'}, 200_000)),
					tx.Set([]byte("brief"), []byte("value"), stoat.TTL(time.Hour)),
					tx.In(times).At(5).Set([]byte("timed"), []byte("five")))
			}))
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(times).At(9).Set([]byte("timed"), []byte("nine")) }))
			want, version := itemsOf(t, db), db.Stats().Version
			testkit.Must(t, f.Checkpoint(t.Context(), testkit.CopyDir))
			if failed, last := calls.Failed(); failed > 0 {
				t.Errorf("the follower changes the directory: %v", last)
			}
			testkit.WantError(t, "another checkpoint", f.Checkpoint(t.Context(), testkit.CopyDir), vfs.ErrExist)
			set(t, db, "later", "value")
			wantKey(t, f, "later", "(none)")
			testkit.Must(t, f.Refresh(t.Context()))
			wantKey(t, f, "later", "value")
			testkit.Must(t, f.Close())
			testkit.Must(t, db.Close())

			left := disk.Crash(memfs.KeepNone, nil)
			copied, err := stoat.Open(testkit.CopyDir, &stoat.Options{FS: left, Keys: keys})
			testkit.Must(t, err)
			if got := itemsOf(t, copied); !maps.Equal(got, want) || copied.Stats().Version != version {
				t.Errorf("the copy has %d keys at version %d, want %d at %d", len(got), copied.Stats().Version, len(want), version)
			}
			times, err = copied.Keyspace("times", nil)
			testkit.Must(t, err)
			testkit.Must(t, copied.View(func(tx stoat.Txn) error {
				for at, want := range map[uint64]string{5: "five", 8: "five", 9: "nine"} {
					if got, err := tx.In(times).At(at).Get([]byte("timed")); err != nil || string(got) != want {
						t.Errorf("at %d: %q, %v", at, got, err)
					}
				}
				return nil
			}))
			testkit.Must(t, copied.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.MustBeSound(t, copied)
			testkit.Must(t, copied.Close())
		})
	}
}

func TestFollowerCheckpoint_MakesDurableWhatItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // no second passes, after which an idle writer flushes
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
		f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: -1})
		testkit.Must(t, err)
		set(t, db, "key", "value")
		testkit.Must(t, f.Checkpoint(t.Context(), testkit.CopyDir))
		left := disk.Crash(memfs.KeepNone, nil)
		testkit.Must(t, f.Close())
		testkit.Must(t, db.Close())
		for _, dir := range []string{testkit.Dir, testkit.CopyDir} {
			if got := readAll(t, left, dir); len(got) != 1 {
				t.Errorf("%s has %d keys after a power cut", dir, len(got))
			}
		}
	})
}

// TestFollowerCheckpoint_LacksWhatComesMeanwhile commits between the choice of the memtables
// and the first link. The follower sees the commit before it writes the memtables.
func TestFollowerCheckpoint_LacksWhatComesMeanwhile(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	set(t, db, "key", "value")
	want := itemsOf(t, db)
	f := follow(t, disk)
	late := false
	disk.SetHook(func(op vfs.Op) {
		if late || op.Kind != vfs.OpLink {
			return
		}
		late = true
		done := make(chan struct{}) // locks are ranked by goroutine
		go func() {
			defer close(done)
			set(t, db, "late", "value")
		}()
		<-done
	})
	testkit.Must(t, f.Checkpoint(t.Context(), testkit.CopyDir))
	disk.SetHook(nil)
	if got := readAll(t, disk, testkit.CopyDir); !late || !maps.Equal(got, want) {
		t.Errorf("the copy has %d keys, want %d", len(got), len(want))
	}
	wantKey(t, f, "late", "value")
	testkit.Must(t, db.Close())
}

// TestFollowerCheckpoint_BesideABusyWriter lets a writer count in all of a few keys, so that
// its jobs delete files all the time.
func TestFollowerCheckpoint_BesideABusyWriter(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	f := follow(t, disk)
	var acknowledged atomic.Int64
	stop, ended := make(chan struct{}), make(chan error)
	const keys = 8
	go func() {
		for n := int64(1); ; n++ {
			select {
			case <-stop:
				ended <- nil
				return
			default:
			}
			err := db.Update(func(tx stoat.Txn) error {
				for k := range keys {
					if err := tx.Set(fmt.Append(nil, "key", k), fmt.Appendf(nil, "%09d%s", n, strings.Repeat("x", int(n)%2000))); err != nil {
						return err
					}
				}
				return nil
			})
			if err == nil && n%200 == 0 {
				err = db.Compact(context.Background(), stoat.CompactOptions{})
			}
			if err != nil {
				ended <- err
				return
			}
			acknowledged.Store(n)
		}
	}()
	for i := range testkit.Raced(30, 8) {
		dir := fmt.Sprint("/copies/", i)
		before := acknowledged.Load()
		testkit.Must(t, f.Checkpoint(t.Context(), dir))
		copied, err := stoat.Open(dir, &stoat.Options{FS: disk})
		testkit.Must(t, err)
		seen := map[string]bool{}
		for _, v := range itemsOf(t, copied) {
			seen[v[:9]] = true
			if v[:9] < fmt.Sprintf("%09d", before) {
				t.Errorf("a copy has count %s, want %d at least", v[:9], before)
			}
		}
		if len(seen) > 1 {
			t.Errorf("a copy has parts of %d commits", len(seen))
		}
		testkit.MustBeSound(t, copied)
		testkit.Must(t, copied.Close())
	}
	close(stop)
	testkit.Must(t, <-ended)
	testkit.Must(t, db.Close())
}

// The writer frees the log sixty times while the follower opens a segment, and later in each of
// the follower's pauses.
func TestFollower_CatchesUpWithAWriterThatFreesTheLogAgainAndAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = testkit.SmallMemtable })
		calls := faultfs.New(disk)
		count := 0
		var freeing sync.Mutex
		free := func() error {
			freeing.Lock()
			defer freeing.Unlock()
			count++
			for range 2 { // segments
				err := db.Update(func(tx stoat.Txn) error {
					for i := range 40 {
						if err := tx.Set(testkit.Key(i), fmt.Appendf(nil, "%01000d", count)); err != nil {
							return err
						}
					}
					return nil
				})
				if err == nil {
					err = db.Compact(context.Background(), stoat.CompactOptions{})
				}
				if err != nil {
					return err
				}
			}
			return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("count"), fmt.Append(nil, count)) })
		}
		testkit.Must(t, free())
		f := follow(t, calls)
		opens, opening := 0, false
		calls.Observe(func(op vfs.Op) {
			if op.Kind == vfs.OpOpen && strings.HasSuffix(op.Path, ".log") && opens < 60 && !opening {
				opens++
				opening = true
				freed := make(chan error)
				go func() { freed <- free() }() // this goroutine holds locks of the follower
				testkit.Must(t, <-freed)
				opening = false
			}
		})
		testkit.Must(t, free())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			var err error
			for err == nil && ctx.Err() == nil {
				time.Sleep(time.Millisecond / 2)
				err = free()
			}
			ended <- err
		}()
		refreshed := f.Refresh(t.Context())
		cancel()
		testkit.Must(t, errors.Join(refreshed, <-ended))
		testkit.Must(t, f.Refresh(t.Context()))
		wantKey(t, f, "count", fmt.Sprint(count))
		testkit.Must(t, f.Close())
		testkit.Must(t, db.Close())
	})
}

// TestFollowerCheckpoint_HasFilesThatTheWriterDeletesMeanwhile lets the writer delete all
// files between the choice of the files and the first link.
func TestFollowerCheckpoint_HasFilesThatTheWriterDeletesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, linked := range []bool{true, false} {
		disk := testkit.NewSampleDisk(t)
		db := testkit.OpenOn(t, disk, nil)
		want := itemsOf(t, db)
		faults := faultfs.New(disk)
		if !linked {
			faults.Add(faultfs.Rule{Op: vfs.OpLink, Forever: true, Err: vfs.ErrUnsupported})
		}
		f := follow(t, faults)
		gone := false
		disk.SetHook(func(op vfs.Op) {
			if gone || op.Kind != vfs.OpLink && (op.Kind != vfs.OpCreate || !strings.HasPrefix(op.Path, testkit.CopyDir)) {
				return
			}
			gone = true
			done := make(chan struct{}) // locks are ranked by goroutine
			go func() {
				defer close(done)
				testkit.DeleteKeys(t, db, 0, 1500)
				testkit.Must(t, db.Compact(context.Background(), stoat.CompactOptions{}))
			}()
			<-done
		})
		testkit.Must(t, f.Checkpoint(t.Context(), testkit.CopyDir))
		disk.SetHook(nil)
		if stats := db.Stats(); !gone || stats.Tables > 0 {
			t.Errorf("the writer has %d tables", stats.Tables)
		}
		testkit.Must(t, db.Close())
		if got := readAll(t, disk.Crash(memfs.KeepNone, nil), testkit.CopyDir); !maps.Equal(got, want) {
			t.Errorf("the copy has %d keys, want %d", len(got), len(want))
		}
	}
}

// TestFollowerCheckpoint_LeavesNothingWhenItFails makes each call of the file system fail.
func TestFollowerCheckpoint_LeavesNothingWhenItFails(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	defer db.Close()
	testkit.SetKeys(t, db, 0, 10, 6000, 4)
	want := itemsOf(t, db)
	faults := faultfs.New(disk)
	f := follow(t, faults)
	for nth := int64(1); ; nth++ {
		dir := fmt.Sprint("/copies/", nth)
		rule := faults.Add(faultfs.Rule{Path: "/copies*", Nth: nth, Err: vfs.ErrIO})
		err := f.Checkpoint(t.Context(), dir)
		if rule.Fired() == 0 {
			testkit.Must(t, err)
			break
		}
		if _, stat := disk.Stat(dir); (err == nil) != (stat == nil) {
			t.Fatalf("call %d fails: checkpoint says %v, its directory %v", nth, err, stat)
		}
		if err != nil {
			testkit.Must(t, f.Checkpoint(t.Context(), dir))
		}
		if _, err := disk.Stat(dir + ".tmp"); !errors.Is(err, vfs.ErrNotExist) {
			t.Fatalf("call %d fails: the temporary directory is still there: %v", nth, err)
		}
		if got := readAll(t, disk, dir); !maps.Equal(got, want) {
			t.Fatalf("call %d fails: the copy has %d keys, want %d", nth, len(got), len(want))
		}
	}
}

func TestFollowerCheckpoint_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	disk := testkit.NewSampleDisk(t)
	db := testkit.OpenOn(t, disk, nil)
	defer db.Close()
	set(t, db, "key", "value")
	f := follow(t, disk)
	ctx, cancel := context.WithCancel(t.Context())
	disk.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpLink {
			cancel()
		}
	})
	testkit.WantError(t, "checkpoint", f.Checkpoint(ctx, testkit.CopyDir), context.Canceled)
	disk.SetHook(nil)
	for _, dir := range []string{testkit.CopyDir, testkit.CopyDir + ".tmp"} {
		if _, err := disk.Stat(dir); !errors.Is(err, vfs.ErrNotExist) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
	testkit.WantError(t, "checkpoint", f.Checkpoint(ctx, testkit.CopyDir), context.Canceled)
}

func TestFollowerCheckpoint_ReportsADamagedLog(t *testing.T) {
	t.Parallel()
	// In a bubble no second passes, after which an idle writer flushes and frees the log.
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 20 }) // no flush frees a segment
		defer db.Close()
		set(t, db, "first", "value")
		f := follow(t, disk)
		for i := 0; db.Stats().Log.Rotations == 0; i++ {
			set(t, db, fmt.Sprint("key", i), strings.Repeat("value", 10_000))
		}
		for range 3 {
			set(t, db, "last", "in the second segment")
		}
		path, at := placeOfNext(t, disk)
		flipByte(t, disk, path, at+1)
		testkit.WantError(t, "checkpoint", f.Checkpoint(t.Context(), testkit.CopyDir), stoat.ErrCorrupt)
		if _, err := disk.Stat(testkit.CopyDir); !errors.Is(err, vfs.ErrNotExist) {
			t.Errorf("the copy is there: %v", err)
		}
	})
}
