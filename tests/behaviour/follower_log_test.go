package behaviour

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	frames "github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
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

// The writer uses a segment again while a check of a follower reads it. The old use then
// seems to end early.
func TestFollower_ACheckReadsTheWholeLogAlthoughTheWriterRecyclesIt(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = testkit.SmallMemtable })
	defer db.Close()
	n := 0
	write := func() { set(t, db, fmt.Sprint("key", n%100), strings.Repeat(fmt.Sprint(n), 300)); n++ }
	for range 20 {
		write()
	}
	watched := &watchedLog{FS: disk}
	f := follow(t, watched)
	begun, recycled := false, false // reading from the start of the log
	watched.read = func(path string, offset int64) {
		begun = begun || offset == frames.Start
		if !begun || offset <= frames.Start || recycled {
			return
		}
		recycled = true
		before := saltOf(t, disk, path)
		for saltOf(t, disk, path) == before {
			write()
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // flushes
			if n > 10_000 {
				t.Fatal("the writer does not use the segment again")
			}
		}
		clearOldFrames(t, disk, path)
	}
	got, err := f.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	want, err := db.Check(t.Context(), stoat.CheckOptions{})
	testkit.Must(t, err)
	if !recycled || got.LogRecords != want.LogRecords {
		t.Errorf("a follower found %d transactions in the log, want %d (%v)", got.LogRecords, want.LogRecords, recycled)
	}
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
