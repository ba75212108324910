package behaviour

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	frames "github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A watchedLog calls read before each read of a log file through it, once read is set.
type watchedLog struct {
	vfs.FS
	read func(path string, offset int64)
}

type watchedFile struct {
	vfs.File
	of *watchedLog
}

func (w *watchedLog) Open(path string, cat vfs.Category) (vfs.File, error) {
	f, err := w.FS.Open(path, cat)
	if err != nil || cat != vfs.CatLog {
		return f, err
	}
	return watchedFile{f, w}, nil
}

func (f watchedFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.of.read != nil {
		f.of.read(f.Name(), offset)
	}
	return f.File.ReadAt(p, offset)
}

// followRecycled returns a writer, and a follower that reads through fs. The writer uses a
// segment again while a check of the follower reads it. The old use then seems to end early.
// After that, recycled is called.
func followRecycled(t *testing.T, disk *memfs.FS, fs vfs.FS, recycled func()) (db, f *stoat.DB) {
	t.Helper()
	db = testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = testkit.SmallMemtable })
	t.Cleanup(func() { testkit.Must(t, db.Close()) })
	n := 0
	write := func() { set(t, db, fmt.Sprint("key", n%100), strings.Repeat(fmt.Sprint(n), 300)); n++ }
	for range 20 {
		write()
	}
	watched := &watchedLog{FS: fs}
	f = follow(t, watched)
	begun, done := false, false // reading from the start of the log
	watched.read = func(path string, offset int64) {
		begun = begun || offset == frames.Start
		if !begun || offset <= frames.Start || done {
			return
		}
		done = true
		before := saltOf(t, disk, path)
		for saltOf(t, disk, path) == before {
			write()
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // flushes
			if n > 10_000 {
				t.Fatal("the writer does not use the segment again")
			}
		}
		clearOldFrames(t, disk, path)
		recycled()
	}
	return db, f
}

func TestFollower_ACheckReadsTheWholeLogAlthoughTheWriterRecyclesIt(t *testing.T) {
	t.Parallel()
	disk, recycled := memfs.New(), false
	db, f := followRecycled(t, disk, disk, func() { recycled = true })
	got, err := f.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	want, err := db.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	if !recycled || got.LogRecords != want.LogRecords {
		t.Errorf("a follower found %d transactions in the log, want %d (%v)", got.LogRecords, want.LogRecords, recycled)
	}
}

// Only the manifest tells whether the log is damaged, or the writer has used it again.
func TestFollower_ACheckThatCannotReadTheManifestAgainCallsNoRecycledLogDamaged(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	_, f := followRecycled(t, disk, faults, func() {
		faults.Add(faultfs.Rule{Op: vfs.OpRead, Category: vfs.CatManifest, Forever: true})
	})
	report, err := f.Check(t.Context(), stoat.CheckOptions{})
	testkit.WantError(t, "Check", err, vfs.ErrIO)
	if errors.Is(err, stoat.ErrCorrupt) || report != nil && len(report.Problems) > 0 {
		t.Errorf("a check of a sound log says %v", err)
	}
}

// The follower is closed while a check or a checkpoint reads a new commit.
func TestFollower_CloseEndsChecksAndCheckpointsWithErrClosed(t *testing.T) {
	t.Parallel()
	check := func(f *stoat.DB) error {
		_, err := f.Check(context.Background(), stoat.CheckOptions{})
		return err
	}
	checkpoint := func(f *stoat.DB) error { return f.Checkpoint(context.Background(), testkit.CopyDir) }
	for _, c := range []struct {
		what  string
		call  func(*stoat.DB) error
		later bool // the commit comes when the call has chosen what to copy
	}{
		{"Check", check, false},
		{"Checkpoint", checkpoint, false},
		{"Checkpoint that makes durable what it has", checkpoint, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			set(t, db, "key", "value")
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // makes a table
			watched := &watchedLog{FS: disk}
			f := follow(t, watched)
			closed := make(chan error, 1)
			commit := func() {
				set(t, db, "new", "value")
				watched.read = func(string, int64) {
					watched.read = nil
					go func() { closed <- f.Close() }()
					synctest.Wait() // until Close waits for the call
				}
			}
			if c.later {
				disk.SetHook(func(op vfs.Op) {
					if op.Kind != vfs.OpLink {
						return
					}
					disk.SetHook(nil)
					done := make(chan struct{}) // locks are ranked by goroutine
					go func() { defer close(done); commit() }()
					<-done
				})
			} else {
				commit()
			}
			testkit.WantError(t, c.what, c.call(f), stoat.ErrClosed)
			testkit.Must(t, <-closed)
			testkit.Must(t, db.Close())
		})
	}
}

// The follower is closed while a check reads the manifest again, which fails.
func TestFollower_CloseEndsACheckOfARecycledLogWithErrClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		faults := faultfs.New(disk)
		var f *stoat.DB
		closed := make(chan error, 1)
		_, f = followRecycled(t, disk, faults, func() {
			faults.Add(faultfs.Rule{Op: vfs.OpRead, Category: vfs.CatManifest, Forever: true})
			faults.Observe(func(op vfs.Op) {
				if op.Kind == vfs.OpRead && op.Category == vfs.CatManifest {
					faults.Observe(nil)
					go func() { closed <- f.Close() }()
					synctest.Wait() // until Close waits for the check
				}
			})
		})
		_, err := f.Check(context.Background(), stoat.CheckOptions{})
		testkit.WantError(t, "Check", err, stoat.ErrClosed)
		testkit.Must(t, <-closed)
	})
}

// saltOf returns the salt of the segment that a log file holds now.
func saltOf(t *testing.T, disk *memfs.FS, path string) uint64 {
	t.Helper()
	content, err := testkit.ReadFile(disk, path)
	testkit.Must(t, err)
	return binary.LittleEndian.Uint64(content[32:])
}

// clearOldFrames clears what a segment has behind its frames, as if it had grown over that.
func clearOldFrames(t *testing.T, disk *memfs.FS, path string) {
	t.Helper()
	content, err := testkit.ReadFile(disk, path)
	testkit.Must(t, err)
	r := frames.NewReader(bytes.NewReader(content), int64(len(content)), saltOf(t, disk, path), nil)
	for err == nil {
		_, err = r.Next()
	}
	f, err := disk.OpenReadWrite(path, vfs.CatLog)
	testkit.Must(t, err)
	_, err = f.WriteAt(make([]byte, int64(len(content))-r.Offset()), r.Offset())
	testkit.Must(t, errors.Join(err, f.Close()))
}

// placeOfNext returns the place of the frame that ends the first segment of the log.
func placeOfNext(t *testing.T, disk *memfs.FS) (path string, at int64) {
	t.Helper()
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		path := disk.Join(testkit.Dir, name)
		content, err := testkit.ReadFile(disk, path)
		testkit.Must(t, err)
		salt := binary.LittleEndian.Uint64(content[32:])
		r := frames.NewReader(bytes.NewReader(content), int64(len(content)), salt, nil)
		for {
			f, err := r.Next()
			if err != nil {
				break
			}
			if f.Kind == frames.Next {
				return path, f.Offset
			}
		}
	}
	t.Fatal("the log has one segment")
	return "", 0
}

func TestFollower_DamageToTheEndOfASegmentIsFound(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 20 }) // no flush frees a segment
	defer db.Close()
	for i := 0; db.Stats().Log.Rotations == 0; i++ {
		set(t, db, fmt.Sprint("key", i), strings.Repeat("value", 10_000))
	}
	for range 3 {
		set(t, db, "last", "in the second segment")
	}
	path, at := placeOfNext(t, disk)
	f := follow(t, disk)
	wantOpeningFindsDamage(t, disk, path, at+1)
	flipByte(t, disk, path, at+1)
	_, err := f.Check(t.Context(), stoat.CheckOptions{})
	testkit.WantError(t, "Check", err, stoat.ErrCorrupt)
	flipByte(t, disk, path, at+1)
	testkit.Must(t, f.Refresh(t.Context()))
	testkit.MustBeSound(t, f)
}

// The writer makes the next segment of the log ahead of time. Its data key may be later
// than all that the follower has.
func TestFollower_KnowsNewDataKeysBeforeItCallsTheLogDamaged(t *testing.T) {
	t.Parallel()
	disk, clock := memfs.New(), testkit.NewClock()
	keyed := func(o *stoat.Options) { o.Keys, o.Clock, o.DataKeyAge = testkit.Keys, clock, time.Second }
	db := testkit.OpenOn(t, disk, keyed)
	defer db.Close()
	set(t, db, "first", "value")
	o := stoat.Options{FS: disk, FollowEvery: -1}
	keyed(&o)
	f, err := stoat.OpenFollower(testkit.Dir, &o)
	testkit.Must(t, err)
	defer f.Close()
	segments := func() (n int) {
		names, err := disk.List(testkit.Dir)
		testkit.Must(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				n++
			}
		}
		return n
	}
	clock.Ms.Add(2000)
	before := segments()
	testkit.Eventually(t, "another segment", func() bool {
		set(t, db, "key", strings.Repeat("v", 1000))
		return segments() > before
	})
	testkit.Must(t, f.Refresh(t.Context()))
	testkit.MustBeSound(t, f)
}
