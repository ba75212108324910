package stoat_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An eventLog keeps the events of a database.
type eventLog struct {
	mu  sync.Mutex
	all []stoat.Event
}

func (l *eventLog) add(e stoat.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// countEvents returns how many events of type E there were.
func countEvents[E stoat.Event](l *eventLog) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if _, ok := e.(E); ok {
			n++
		}
	}
	return n
}

func TestEventsTellEveryFlushCompactionAndFile(t *testing.T) {
	t.Parallel()
	var log eventLog
	disk := memfs.New()
	db := openOn(t, disk, func(o *stoat.Options) { o.Events = log.add })
	for round := range 3 {
		setAll(t, db, 0, 1000, 300+300*round, byte(round))
	}
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	must(t, db.Checkpoint(t.Context(), copyDir))
	s := db.Stats()
	must(t, db.Close())
	if got := countEvents[stoat.FlushDone](&log); int64(got) < s.Flushes || got == 0 {
		t.Errorf("%d events of flushes, want %d", got, s.Flushes)
	}
	if got := countEvents[stoat.CompactionDone](&log); int64(got) < s.Compactions || got == 0 {
		t.Errorf("%d events of compactions, want %d", got, s.Compactions)
	}
	collected := 0
	for _, e := range log.all {
		if e, ok := e.(stoat.CollectionDone); ok {
			collected += e.Files
		}
	}
	if int64(collected) < s.Collections || collected == 0 {
		t.Errorf("events tell of %d collections, want %d", collected, s.Collections)
	}
	if got := countEvents[stoat.CheckpointDone](&log); got != 1 {
		t.Errorf("%d events of checkpoints", got)
	}
	// What was made and not deleted is what is there.
	files := map[string]bool{}
	for _, e := range log.all {
		switch e := e.(type) {
		case stoat.FileCreated:
			files[e.Name] = true
		case stoat.FileDeleted:
			delete(files, e.Name)
		}
	}
	names, err := disk.List(dbDir)
	must(t, err)
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

func TestEventCallbacksMayUseTheDatabase(t *testing.T) {
	t.Parallel()
	var db *stoat.DB
	opened := make(chan struct{})
	var compacted sync.Once
	db = openOn(t, memfs.New(), func(o *stoat.Options) {
		o.Events = func(e stoat.Event) {
			<-opened
			compacted.Do(func() {
				must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte("event"), fmt.Append(nil, e)) }))
				must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			})
		}
	})
	close(opened)
	setAll(t, db, 0, 3000, 100, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	must(t, db.Close())
}

func TestEventsTellStallsAndErrorsOfTheBackground(t *testing.T) {
	t.Parallel()
	var log eventLog
	faults := faultfs.New(memfs.New())
	faults.Add(faultfs.Rule{Category: vfs.CatTable, Op: vfs.OpCreate, Forever: true, Err: vfs.ErrNoSpace})
	var text bytes.Buffer
	db, err := stoat.Open(dbDir, &stoat.Options{FS: faults, MemtableSize: 64 << 10, Events: log.add,
		Logger: slog.New(slog.NewTextHandler(&text, nil))})
	must(t, err)
	for err == nil {
		err = db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 10<<10)) })
	}
	wantError(t, "commit without memory", err, stoat.ErrNoSpace)
	must(t, db.Close())
	for _, e := range log.all {
		if e, ok := e.(stoat.BackgroundError); ok && !errors.Is(e.Err, stoat.ErrNoSpace) {
			t.Errorf("%v", e.Err)
		}
	}
	begun, ended := countEvents[stoat.StallBegin](&log), countEvents[stoat.StallEnd](&log)
	if failed := countEvents[stoat.BackgroundError](&log); failed == 0 || begun == 0 || begun != ended {
		t.Errorf("%d errors, %d stalls, %d of them ended", failed, begun, ended)
	}
	for _, want := range []string{"level=ERROR msg=\"stoat: background work failed\"", "level=WARN msg=\"stoat: commits wait", "level=INFO msg=\"stoat: commits go on"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, text.String())
		}
	}
}

func TestStatsTellLatenciesAndWhatIsWritten(t *testing.T) {
	t.Parallel()
	db := openOn(t, memfs.New(), nil)
	for i := range 40 {
		must(t, db.Update(func(tx *stoat.Txn) error { return tx.Set(treeKey(i), make([]byte, 8<<10)) }))
	}
	setAll(t, db, 100, 1000, 300, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
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
	must(t, db.Close())
}

func TestEventsTellOfFilesThatCouldNotBeDeleted(t *testing.T) {
	t.Parallel()
	var log eventLog
	faults := faultfs.New(memfs.New())
	faults.Add(faultfs.Rule{Category: vfs.CatTable, Op: vfs.OpRemove, Forever: true, Err: vfs.ErrPermission})
	db, err := stoat.Open(dbDir, &stoat.Options{FS: faults, MemtableSize: 128 << 10, Events: log.add})
	must(t, err)
	setAll(t, db, 0, 1000, 300, 1)
	deleteAll(t, db, 0, 1000)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	must(t, db.Close())
	if n := countEvents[stoat.Warning](&log); n == 0 {
		t.Error("there was no warning")
	}
	for _, e := range log.all {
		if e, ok := e.(stoat.Warning); ok && !errors.Is(e.Err, vfs.ErrPermission) {
			t.Errorf("%+v", e)
		}
	}
}

func TestAFreeLogFileThatCannotBeRemovedDoesNotFailClose(t *testing.T) {
	t.Parallel()
	var log eventLog
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := stoat.Open(dbDir, &stoat.Options{FS: faults, MemtableSize: 128 << 10, Events: log.add})
	must(t, err)
	setAll(t, db, 0, 1000, 300, 1)
	must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	setAll(t, db, 1000, 1001, 300, 1) // stays in the log
	stuck := faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: vfs.OpRemove, Forever: true, Err: vfs.ErrPermission})
	must(t, db.Close())
	if stuck.Fired() == 0 {
		t.Fatal("there was no file to be removed")
	}
	if n := countEvents[stoat.Warning](&log); n == 0 {
		t.Error("there was no warning")
	}

	// Close has noted the end of the log: that it is gone is damage.
	names, err := disk.List(dbDir)
	must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		f, err := disk.OpenReadWrite(disk.Join(dbDir, name), vfs.CatLog)
		must(t, err)
		size, err := f.Size()
		must(t, err)
		_, err = f.WriteAt(make([]byte, size-8192), 8192) // all but the header
		must(t, err)
		must(t, f.Close())
	}
	_, err = stoat.Open(dbDir, &stoat.Options{FS: disk})
	wantError(t, "open without the end of the log", err, stoat.ErrCorrupt)
}

// TestACallbackThatHangsCostsEventsAndNothingElse lets a callback wait while
// far more happens than events may wait.
func TestACallbackThatHangsCostsEventsAndNothingElse(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	events := 0
	db := openOn(t, memfs.New(), func(o *stoat.Options) {
		o.Events = func(stoat.Event) {
			<-release
			events++
		}
	})
	for n := 0; db.Stats().EventsDropped == 0; n++ {
		if n == 5000 {
			t.Fatal("no event was dropped")
		}
		setAll(t, db, 0, 1, 600, byte(n))
		must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	close(release)
	must(t, db.Close())
	if events < 1000 {
		t.Errorf("only %d events came", events)
	}
}
