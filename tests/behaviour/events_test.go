package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestEvents_TellEveryFlushCompactionAndFile(t *testing.T) {
	t.Parallel()
	var log testkit.EventLog
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Events = log.Add })
	for round := range 3 {
		testkit.SetKeys(t, db, 0, 1000, 300+300*round, byte(round))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	s := db.Stats()
	testkit.Must(t, db.Close())
	if got := testkit.CountEvents[stoat.FlushDone](&log); int64(got) < s.Flushes || got == 0 {
		t.Errorf("%d events of flushes, want %d", got, s.Flushes)
	}
	if got := testkit.CountEvents[stoat.CompactionDone](&log); int64(got) < s.Compactions || got == 0 {
		t.Errorf("%d events of compactions, want %d", got, s.Compactions)
	}
	collected := 0
	for _, e := range log.All {
		if e, ok := e.(stoat.CollectionDone); ok {
			collected += e.Files
		}
	}
	if int64(collected) < s.Collections || collected == 0 {
		t.Errorf("events tell of %d collections, want %d", collected, s.Collections)
	}
	if got := testkit.CountEvents[stoat.CheckpointDone](&log); got != 1 {
		t.Errorf("%d events of checkpoints", got)
	}
	// What was made and not deleted is what is there.
	files := map[string]bool{}
	for _, e := range log.All {
		switch e := e.(type) {
		case stoat.FileCreated:
			files[e.Name] = true
		case stoat.FileDeleted:
			delete(files, e.Name)
		}
	}
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if isData := strings.HasSuffix(name, ".table") || strings.HasSuffix(name, ".values"); isData != files[name] {
			t.Errorf("%s: made and not deleted is %v", name, files[name])
		}
		delete(files, name)
	}
	if len(files) > 0 {
		t.Errorf("events say that there are %v", files)
	}
}

func TestEvents_CallbacksMayUseTheDatabase(t *testing.T) {
	t.Parallel()
	var db *stoat.DB
	opened := make(chan struct{})
	var compacted sync.Once
	db = testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.Events = func(e stoat.Event) {
			<-opened
			compacted.Do(func() {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("event"), fmt.Append(nil, e)) }))
				testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			})
		}
	})
	close(opened)
	testkit.SetKeys(t, db, 0, 3000, 100, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
}

func TestEvents_TellStallsAndErrorsOfBackgroundJobs(t *testing.T) {
	t.Parallel()
	var log testkit.EventLog
	faults := faultfs.New(memfs.New())
	faults.Add(faultfs.Rule{Category: vfs.CatTable, Op: vfs.OpCreate, Forever: true, Err: vfs.ErrNoSpace})
	var text bytes.Buffer
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 64 << 10, Events: log.Add,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	testkit.Must(t, err)
	for err == nil {
		err = db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 10<<10)) })
	}
	testkit.WantError(t, "commit without memory", err, stoat.ErrNoSpace)
	testkit.Must(t, db.Close())
	for _, e := range log.All {
		if e, ok := e.(stoat.BackgroundError); ok && !errors.Is(e.Err, stoat.ErrNoSpace) {
			t.Errorf("%v", e.Err)
		}
	}
	begun, ended := testkit.CountEvents[stoat.StallBegin](&log), testkit.CountEvents[stoat.StallEnd](&log)
	if failed := testkit.CountEvents[stoat.BackgroundError](&log); failed == 0 || begun == 0 || begun != ended {
		t.Errorf("%d errors, %d stalls, %d of them ended", failed, begun, ended)
	}
	for _, want := range []string{"level=ERROR msg=\"stoat: background work failed\"", "level=WARN msg=\"stoat: commits wait", "level=INFO msg=\"stoat: commits go on"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, text.String())
		}
	}
}

func TestStats_TellLatenciesAndWrites(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	for i := range 40 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 8<<10)) }))
	}
	testkit.SetKeys(t, db, 100, 1000, 300, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	s := db.Stats()
	l := s.Latencies
	if l.Commit.Count < 40 || l.Sync.Count != s.Syncs || l.Flush.Count != uint64(s.Flushes) || l.Compaction.Count != uint64(s.Compactions) {
		t.Errorf("latencies %+v of %+v", l, s)
	}
	if l.Commit.P50 == 0 || l.Commit.P50 > l.Commit.P99 || l.Commit.P99 > l.Commit.Max {
		t.Errorf("commits took %+v", l.Commit)
	}
	if want := int64(40*(8<<10) + 900*300); s.CommittedBytes < want || s.CommittedBytes > want*11/10 {
		t.Errorf("%d bytes were committed, want about %d", s.CommittedBytes, want)
	}
	if w := s.WriteAmplification(); w < 2 || w > 5 {
		t.Errorf("%.1f bytes were written for each, in %+v", w, s)
	}
	testkit.Must(t, db.Close())
}

func TestEvents_TellOfFilesThatCouldNotBeDeleted(t *testing.T) {
	t.Parallel()
	var log testkit.EventLog
	faults := faultfs.New(memfs.New())
	faults.Add(faultfs.Rule{Category: vfs.CatTable, Op: vfs.OpRemove, Forever: true, Err: vfs.ErrPermission})
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 128 << 10, Events: log.Add})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 1000, 300, 1)
	testkit.DeleteKeys(t, db, 0, 1000)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	if n := testkit.CountEvents[stoat.Warning](&log); n == 0 {
		t.Error("there was no warning")
	}
	for _, e := range log.All {
		if e, ok := e.(stoat.Warning); ok && !errors.Is(e.Err, vfs.ErrPermission) {
			t.Errorf("%+v", e)
		}
	}
}

func TestClose_SucceedsWhenAFreeLogFileCannotBeRemoved(t *testing.T) {
	t.Parallel()
	var log testkit.EventLog
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 128 << 10, Events: log.Add})
	testkit.Must(t, err)
	testkit.SetKeys(t, db, 0, 1000, 300, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.SetKeys(t, db, 1000, 1001, 300, 1) // stays in the log
	stuck := faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: vfs.OpRemove, Forever: true, Err: vfs.ErrPermission})
	testkit.Must(t, db.Close())
	if stuck.Fired() == 0 {
		t.Fatal("there was no file to be removed")
	}
	if n := testkit.CountEvents[stoat.Warning](&log); n == 0 {
		t.Error("there was no warning")
	}

	// Close has noted the end of the log: that it is gone is damage.
	names, err := disk.List(testkit.Dir)
	testkit.Must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := disk.OpenReadWrite(disk.Join(testkit.Dir, name), vfs.CatLog)
		testkit.Must(t, err)
		size, err := f.Size()
		testkit.Must(t, err)
		_, err = f.WriteAt(make([]byte, size-8192), 8192) // all but the header
		testkit.Must(t, err)
		testkit.Must(t, f.Close())
	}
	_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.WantError(t, "open without the end of the log", err, stoat.ErrCorrupt)
}

// TestEvents_HangingCallbackCostsOnlyEvents lets a callback wait while
// far more happens than events may wait.
func TestEvents_HangingCallbackCostsOnlyEvents(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	events := 0
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		o.Events = func(stoat.Event) {
			<-release
			events++
		}
	})
	for n := 0; db.Stats().EventsDropped == 0; n++ {
		if n == 5000 {
			t.Fatal("no event was dropped")
		}
		testkit.SetKeys(t, db, 0, 1, 600, byte(n))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	close(release)
	testkit.Must(t, db.Close())
	if events < 1000 {
		t.Errorf("only %d events came", events)
	}
}

func TestEvents_NoneFollowsAnOpenThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, nil)
		writeVersions(t, db, 1)
		testkit.Must(t, db.Close())
		for n := range base.FileNum(3) {
			testkit.Must(t, testkit.WriteFile(disk, disk.Join(testkit.Dir, base.TableName(100+n)), []byte("orphan")))
		}
		faults := faultfs.New(disk)
		faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: vfs.OpRead, Forever: true})
		var begun, ended atomic.Int32
		_, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, Events: func(stoat.Event) {
			begun.Add(1)
			time.Sleep(time.Second)
			ended.Add(1)
		}})
		testkit.WantError(t, "open of a log that cannot be read", err, faultfs.ErrInjected)
		before := ended.Load()
		time.Sleep(time.Minute)
		if after := begun.Load(); before != after || after == 0 {
			t.Errorf("%d of %d calls had ended when Open returned", before, after)
		}
	})
}
