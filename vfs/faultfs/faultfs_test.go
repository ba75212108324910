package faultfs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// replace replaces a file atomically: it writes and syncs a temporary file, renames it and
// syncs the directory. It uses nearly every call.
func replace(fs vfs.FS, dir, contents string) (err error) {
	held, err := fs.Lock(fs.Join(dir, "LOCK"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	if _, err := fs.Free(dir); err != nil {
		return err
	}
	tmp := fs.Join(dir, "tmp")
	if _, err := fs.Stat(tmp); err == nil {
		if err := fs.Remove(tmp); err != nil {
			return err
		}
	} else if !errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	f, err := fs.Create(tmp, vfs.CatManifest)
	if err != nil {
		return err
	}
	err = fillFile(f, contents)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(tmp, fs.Join(dir, "current")); err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

// fillFile writes the contents of a new file and reads them in every way.
func fillFile(f vfs.File, contents string) error {
	if _, err := f.Preallocate(0, int64(len(contents))); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte(contents), 0); err != nil {
		return err
	}
	if err := f.SyncRange(0, int64(len(contents))); err != nil {
		return err
	}
	if err := f.WaitRange(0, int64(len(contents))); err != nil {
		return err
	}
	if err := f.SyncData(); err != nil {
		return err
	}
	got := make([]byte, len(contents))
	if n, err := f.ReadAt(got, 0); err != nil || string(got) != contents {
		return errors.Join(err, fmt.Errorf("read back %d of %d bytes", n, len(got)))
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	m, err := f.Map(size)
	if err != nil {
		return err
	}
	return errors.Join(m.WillNeed(0, size), populateOf(m)(0, size), m.KeepUsed(), m.DontNeed(0, size), m.Close())
}

// TestRule_EachCallFailsOnce makes every call fail once, in several ways. It checks the
// returned error and the states after a crash.
func TestRule_EachCallFailsOnce(t *testing.T) {
	t.Parallel()
	rules := map[string]Rule{
		"once":                {Err: vfs.ErrIO},
		"from then on":        {Err: vfs.ErrNoSpace, Forever: true},
		"done but failed":     {Err: vfs.ErrPermission, Done: true},
		"in part":             {Err: vfs.ErrNoSpace, Partial: 3},
		"sync that kept":      {Err: vfs.ErrIO, Sync: vfs.SyncKept},
		"sync that halved":    {Err: vfs.ErrIO, Sync: vfs.SyncHalf, Seed: 3},
		"sync not tried":      {Err: vfs.ErrReadOnly, Sync: vfs.SyncNotTried},
		"descriptors run out": {Err: vfs.ErrTooManyFiles},
	}
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kinds := map[vfs.OpKind]bool{}
			for n := int64(1); ; n++ {
				disk := memfs.New()
				must(t, disk.MkdirAll("/db"))
				must(t, replace(disk, "/db", "old contents"))
				faults := New(disk)
				rule.Nth = n
				fault := faults.Add(rule)
				err := replace(faults, "/db", "new contents")
				if fault.Fired() == 0 {
					must(t, err)
					if !rule.Forever { // otherwise the last failure hides the first
						wantKinds(t, kinds)
					}
					return
				}
				_, op := faults.Failed()
				kinds[op.Kind] = true
				wantIs(t, err, ErrInjected)
				wantIs(t, err, rule.Err)
				for _, kind := range memfs.CrashKinds() {
					after := fileContents(t, disk.Crash(kind, testRand(uint64(n))), "/db/current")
					if after != "old contents" && after != "new contents" {
						t.Fatalf("call %d (%s), then a crash of kind %q: %q", n, op, kind, after)
					}
				}
			}
		})
	}
}

// wantKinds checks that each kind of operation in replace failed at least once.
func wantKinds(t *testing.T, got map[vfs.OpKind]bool) {
	t.Helper()
	for _, kind := range []vfs.OpKind{
		vfs.OpLock, vfs.OpFree, vfs.OpStat, vfs.OpCreate, vfs.OpPreallocate, vfs.OpWrite, vfs.OpSyncRange, vfs.OpWaitRange, vfs.OpSyncData, vfs.OpRead,
		vfs.OpSize, vfs.OpMap, vfs.OpWillNeed, vfs.OpPopulate, vfs.OpKeepUsed, vfs.OpDontNeed, vfs.OpUnmap, vfs.OpClose, vfs.OpRename, vfs.OpSyncDir,
	} {
		if !got[kind] {
			t.Errorf("no %q failed", kind)
		}
	}
}

func TestRule_Matches(t *testing.T) {
	t.Parallel()
	use := func(fs vfs.FS) (failed []string) {
		try := func(what string, err error) {
			if err != nil {
				failed = append(failed, what)
			}
		}
		log, err := fs.Create("/000001.log", vfs.CatLog)
		try("create log", err)
		table, err := fs.Create("/000002.table", vfs.CatTable)
		try("create table", err)
		for i := range int64(3) {
			if log != nil {
				_, err = log.WriteAt([]byte("x"), i)
				try(fmt.Sprint("log ", i), err)
			}
			if table != nil {
				_, err = table.WriteAt([]byte("x"), i)
				try(fmt.Sprint("table ", i), err)
			}
		}
		try("rename", fs.Rename("/000002.table", "/000003.table"))
		try("remove", fs.Remove("/000001.log"))
		return failed
	}
	tests := []struct {
		rule Rule
		want string
	}{
		{Rule{}, "create log remove"},
		{Rule{Nth: 2}, "create table rename"},
		{Rule{Op: vfs.OpWrite}, "log 0"},
		{Rule{Op: vfs.OpWrite, Nth: 4}, "table 1"},
		{Rule{Op: vfs.OpWrite, Category: vfs.CatTable}, "table 0"},
		{Rule{Op: vfs.OpWrite, Category: vfs.CatTable, Nth: 2, Forever: true}, "table 1 table 2"},
		{Rule{Op: vfs.OpWrite, Path: "0001"}, "log 0"},
		{Rule{Op: vfs.OpWrite, Path: "*.table", Nth: 3}, "table 2"},
		{Rule{Op: vfs.OpWrite, Path: "/000002.t?ble", Forever: true}, "table 0 table 1 table 2"},
		{Rule{Op: vfs.OpWrite, Path: "[", Forever: true}, ""},
		{Rule{Category: vfs.CatManifest, Forever: true}, ""},
		{Rule{Op: vfs.OpRename}, "rename"},
		{Rule{Op: vfs.OpRename, Path: "000003"}, "rename"},
		{Rule{Op: vfs.OpRename, Category: vfs.CatTable}, "rename"},
		{Rule{Op: vfs.OpRemove, Category: vfs.CatTable}, ""},
		{Rule{Op: vfs.OpRemove, Category: vfs.CatLog}, "remove"},
		{Rule{Op: vfs.OpWrite, Nth: 7}, ""},
	}
	for _, test := range tests {
		faults := New(memfs.New())
		faults.Add(test.rule)
		if got := strings.Join(use(faults), " "); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.rule, got, test.want)
		}
	}
}

func TestRule_CategoriesFollowNames(t *testing.T) {
	t.Parallel()
	faults := New(memfs.New())
	closeFile(t, create(t, faults, "/table", "")) // CatTable
	must(t, faults.Link("/table", "/link"))
	must(t, faults.Rename("/table", "/renamed"))
	plain, err := faults.Create("/table", vfs.CatNone)
	must(t, err)
	closeFile(t, plain)
	faults.Add(Rule{Op: vfs.OpRemove, Category: vfs.CatTable, Forever: true})
	must(t, faults.Remove("/table"))
	wantIs(t, faults.Remove("/link"), ErrInjected)
	wantIs(t, faults.Remove("/renamed"), ErrInjected)
	faults.Clear()
	must(t, faults.Remove("/renamed"))
	faults.Add(Rule{Op: vfs.OpStat, Category: vfs.CatTable})
	_, err = faults.Stat("/renamed")
	wantIs(t, err, vfs.ErrNotExist)
}

func TestCalls_CountWithAndWithoutFaults(t *testing.T) {
	t.Parallel()
	faults := New(memfs.New())
	var seen []vfs.Op
	faults.Observe(func(op vfs.Op) { seen = append(seen, op) })
	must(t, faults.MkdirAll("/db"))
	must(t, replace(faults, "/db", "contents"))
	if got := faults.Calls(); got != int64(len(seen)) || got < 15 {
		t.Fatalf("%d calls counted, %d observed", got, len(seen))
	}
	before := faults.Calls()
	rule := faults.Add(Rule{Op: vfs.OpStat, Forever: true})
	for range 3 {
		_, err := faults.Stat("/db")
		wantIs(t, err, vfs.ErrIO)
	}
	if got := faults.Calls() - before; got != 3 || rule.Fired() != 3 {
		t.Fatalf("%d calls counted, %d failed, want 3 of each", got, rule.Fired())
	}
	faults.Clear()
	_, err := faults.Stat("/db")
	must(t, err)
	if n, op := faults.Failed(); n != 3 || op.Kind != vfs.OpStat {
		t.Fatalf("got %d failures, the last %s", n, op)
	}
}

func TestRule_PartialWriteAndShortRead(t *testing.T) {
	t.Parallel()
	faults := New(memfs.New())
	f := create(t, faults, "/a", "0123456789")
	faults.Add(Rule{Op: vfs.OpWrite, Partial: 4, Err: vfs.ErrNoSpace})
	n, err := f.WriteAt([]byte("abcdefgh"), 0)
	wantIs(t, err, vfs.ErrNoSpace)
	if n != 4 {
		t.Fatalf("wrote %d bytes, want 4", n)
	}
	wantContents(t, contents(t, f), "abcd456789")
	faults.Add(Rule{Op: vfs.OpRead, Partial: 3, Err: io.EOF})
	buf := make([]byte, 8)
	if n, err := f.ReadAt(buf, 0); n != 3 || err != io.EOF || string(buf[:3]) != "abc" {
		t.Fatalf("got %d, %v, %q, want a short read of 3", n, err, buf)
	}
	faults.Clear()
	faults.Add(Rule{Op: vfs.OpRead, Partial: 3})
	n, err = f.ReadAt(buf, 0)
	wantIs(t, err, vfs.ErrIO)
	if n != 3 {
		t.Fatalf("read %d bytes, want 3", n)
	}
}

func TestRule_DoneCallsHappen(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	faults.Add(Rule{Done: true, Forever: true})
	_, err := faults.Create("/a", vfs.CatTable)
	wantIs(t, err, ErrInjected)
	wantIs(t, faults.Rename("/a", "/b"), ErrInjected)
	_, err = faults.Lock("/LOCK")
	wantIs(t, err, ErrInjected)
	names, err := disk.List("/")
	must(t, err)
	if !slices.Equal(names, []string{"LOCK", "b"}) {
		t.Fatalf("got names %v, want those of the calls that were done", names)
	}
	held, err := disk.Lock("/LOCK")
	must(t, err)
	closeFile(t, held)
	wantIs(t, faults.Rename("/gone", "/b"), ErrInjected)
}

func TestRule_FailedCloseStillCloses(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	f := create(t, faults, "/a", "12345678")
	m, err := f.Map(8)
	must(t, err)
	faults.Add(Rule{Forever: true})
	wantIs(t, f.Close(), ErrInjected)
	wantIs(t, m.Close(), ErrInjected)
	must(t, disk.Remove("/a"))
	if used := disk.UsedBytes(); used != 0 {
		t.Fatalf("%d bytes are still held open", used)
	}
}

func TestSyncFate_OfFiles(t *testing.T) {
	t.Parallel()
	old := strings.Repeat("o", 8*sectorSize)
	fresh := strings.Repeat("n", 8*sectorSize)
	tests := []struct {
		fate vfs.SyncFate
		// survives is the content after a crash that follows the failure. later is the
		// content after another sync and a crash.
		survives, later string
	}{
		{vfs.SyncDropped, old, old},
		{vfs.SyncKept, fresh, fresh},
		{vfs.SyncNotTried, old, fresh},
		{vfs.SyncHalf, "", ""},
	}
	for _, test := range tests {
		disk := memfs.New()
		faults := New(disk)
		f := create(t, faults, "/a", old)
		must(t, f.Sync())
		must(t, faults.SyncDir("/"))
		write(t, f, 0, fresh)
		faults.Add(Rule{Op: vfs.OpSyncData, Sync: test.fate, Seed: 5})
		wantIs(t, f.SyncData(), vfs.ErrIO)
		wantContents(t, contents(t, f), fresh)
		crashed := func() string {
			return fileContents(t, disk.Crash(memfs.KeepNone, testRand(1)), "/a")
		}
		survives := crashed()
		must(t, f.SyncData())
		later := crashed()
		if test.fate == vfs.SyncHalf {
			n := strings.Count(survives, "n")
			if n == 0 || n == len(fresh) || n%sectorSize != 0 || later != survives {
				t.Errorf("half: %d bytes survive, then %d", n, strings.Count(later, "n"))
			}
			continue
		}
		wantContents(t, survives, test.survives)
		wantContents(t, later, test.later)
	}
}

// TestSyncFate_SyncAfterDroppedCoversOnlyNewWrites writes a block whose sync fails, and
// another whose sync succeeds.
func TestSyncFate_SyncAfterDroppedCoversOnlyNewWrites(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	f := create(t, faults, "/a", strings.Repeat("o", 2*pageSize))
	must(t, f.Sync())
	must(t, faults.SyncDir("/"))
	write(t, f, 0, strings.Repeat("1", pageSize))
	faults.Add(Rule{Op: vfs.OpSyncData})
	wantIs(t, f.SyncData(), vfs.ErrIO)
	write(t, f, pageSize, strings.Repeat("2", pageSize))
	must(t, f.SyncData())
	want := strings.Repeat("o", pageSize) + strings.Repeat("2", pageSize)
	wantContents(t, fileContents(t, disk.Crash(memfs.KeepNone, testRand(1)), "/a"), want)
	wantContents(t, contents(t, f), strings.Repeat("1", pageSize)+strings.Repeat("2", pageSize))
	for _, kind := range memfs.CrashKinds() {
		wantContents(t, fileContents(t, disk.Crash(kind, testRand(1)), "/a"), want)
	}
}

// TestSyncFate_SectorAfterDroppedIsWhatReadersSee changes a byte next to bytes whose sync
// failed. The sector that may reach the device has both.
func TestSyncFate_SectorAfterDroppedIsWhatReadersSee(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	f := create(t, faults, "/a", strings.Repeat("o", pageSize))
	must(t, f.Sync())
	must(t, faults.SyncDir("/"))
	write(t, f, 0, strings.Repeat("1", pageSize))
	faults.Add(Rule{Op: vfs.OpSyncData})
	wantIs(t, f.SyncData(), vfs.ErrIO)
	write(t, f, 10, "2")
	sector := strings.Repeat("1", 10) + "2" + strings.Repeat("1", sectorSize-11)
	want := sector + strings.Repeat("o", pageSize-sectorSize)
	wantContents(t, fileContents(t, disk.Crash(memfs.KeepAll, testRand(1)), "/a"), want)
}

// TestSyncFate_SyncAfterDroppedCoversTheLength appends after a sync that failed.
func TestSyncFate_SyncAfterDroppedCoversTheLength(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	f := create(t, faults, "/a", strings.Repeat("o", pageSize))
	must(t, f.Sync())
	must(t, faults.SyncDir("/"))
	write(t, f, pageSize, strings.Repeat("1", pageSize))
	faults.Add(Rule{Op: vfs.OpSyncData})
	wantIs(t, f.SyncData(), vfs.ErrIO)
	write(t, f, 2*pageSize, "2222")
	must(t, f.SyncData())
	want := strings.Repeat("o", pageSize) + string(make([]byte, pageSize)) + "2222"
	wantContents(t, fileContents(t, disk.Crash(memfs.KeepNone, testRand(1)), "/a"), want)
	must(t, f.Truncate(10))
	must(t, f.SyncData())
	wantContents(t, fileContents(t, disk.Crash(memfs.KeepNone, testRand(1)), "/a"), want[:10])
}

// TestSyncFate_LaterSyncSkipsDataThatWaitRangeDropped fails the wait of a file
// whose next sync then succeeds.
func TestSyncFate_LaterSyncSkipsDataThatWaitRangeDropped(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	f := create(t, faults, "/a", "lost")
	faults.Add(Rule{Op: vfs.OpWaitRange, Sync: vfs.SyncDropped})
	wantIs(t, f.WaitRange(0, 4), vfs.ErrIO)
	must(t, f.SyncData())
	must(t, disk.SyncDir("/"))
	wantContents(t, fileContents(t, disk.Crash(memfs.KeepNone, testRand(1)), "/a"), "")
}

func TestSyncFate_EachOpenHandleReportsTheFailureOnce(t *testing.T) {
	t.Parallel()
	faults := New(memfs.New())
	first := create(t, faults, "/a", "x")
	second, err := faults.OpenReadWrite("/a", vfs.CatLog)
	must(t, err)
	faults.Add(Rule{Op: vfs.OpSyncData})
	wantIs(t, first.SyncData(), ErrInjected)
	later, err := faults.OpenReadWrite("/a", vfs.CatLog)
	must(t, err)
	must(t, first.SyncData())
	wantIs(t, second.SyncData(), vfs.ErrIO)
	must(t, second.SyncData())
	must(t, later.SyncData())
}

func TestSyncFate_OfDirectories(t *testing.T) {
	t.Parallel()
	for fate, want := range map[vfs.SyncFate]bool{vfs.SyncDropped: false, vfs.SyncKept: true, vfs.SyncNotTried: false} {
		disk := memfs.New()
		faults := New(disk)
		closeFile(t, create(t, faults, "/a", ""))
		faults.Add(Rule{Op: vfs.OpSyncDir, Sync: fate})
		wantIs(t, faults.SyncDir("/"), vfs.ErrIO)
		_, err := disk.Crash(memfs.KeepNone, testRand(1)).Stat("/a")
		if got := err == nil; got != want {
			t.Errorf("fate %d: name survived %v, want %v", fate, got, want)
		}
		must(t, faults.SyncDir("/"))
		_, err = disk.Crash(memfs.KeepNone, testRand(1)).Stat("/a")
		if got, want := err == nil, fate != vfs.SyncDropped; got != want {
			t.Errorf("fate %d: name survived a later sync %v, want %v", fate, got, want)
		}
	}
}

func TestSyncFate_HalfOfADirectory(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := New(disk)
	for i := range 20 {
		closeFile(t, create(t, faults, fmt.Sprint("/", i), ""))
	}
	faults.Add(Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncHalf, Seed: 2})
	wantIs(t, faults.SyncDir("/"), vfs.ErrIO)
	names, err := disk.Crash(memfs.KeepNone, testRand(1)).List("/")
	must(t, err)
	if len(names) == 0 || len(names) == 20 {
		t.Fatalf("%d of 20 names survived, want a part", len(names))
	}
}

func TestSyncFate_OverOS(t *testing.T) {
	t.Parallel()
	faults := New(vfs.OS())
	dir := t.TempDir()
	f := create(t, faults, faults.Join(dir, "a"), "x")
	defer closeFile(t, f)
	faults.Add(Rule{Op: vfs.OpSync, Sync: vfs.SyncKept})
	faults.Add(Rule{Op: vfs.OpSyncDir, Sync: vfs.SyncDropped})
	wantIs(t, f.Sync(), ErrInjected)
	wantIs(t, faults.SyncDir(dir), ErrInjected)
	must(t, f.Sync())
	must(t, faults.SyncDir(dir))
}

func TestRule_CountsCallsOfManyGoroutines(t *testing.T) {
	t.Parallel()
	faults := New(memfs.New())
	rule := faults.Add(Rule{Op: vfs.OpWrite, Nth: 101, Forever: true})
	var failed atomic.Int64
	var wg sync.WaitGroup
	for w := range 8 {
		f := create(t, memfs.New(), "/unrelated", "")
		closeFile(t, f)
		g, err := faults.Create(fmt.Sprint("/", w), vfs.CatLog)
		must(t, err)
		wg.Go(func() {
			for i := range int64(50) {
				if _, err := g.WriteAt([]byte("x"), i); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() != 300 || rule.Fired() != 300 {
		t.Fatalf("%d writes failed, the rule fired %d times, want 300", failed.Load(), rule.Fired())
	}
}

// A name whose sync has failed counts as durable for the next sync.
func TestMkdirAll_SucceedsDurablyAfterASyncOfANameFailed(t *testing.T) {
	t.Parallel()
	for nth := int64(1); ; nth++ {
		disk := memfs.New()
		faults := New(disk)
		fault := faults.Add(Rule{Op: vfs.OpSyncDir, Nth: nth, Sync: vfs.SyncDropped})
		err := faults.MkdirAll("/a/b")
		if fault.Fired() == 0 {
			must(t, err)
			if nth < 4 {
				t.Errorf("MkdirAll of two levels has %d syncs, want 3", nth-1)
			}
			return
		}
		wantIs(t, err, vfs.ErrIO)
		must(t, faults.MkdirAll("/a/b"))
		if _, err := disk.Crash(memfs.KeepNone, nil).Stat("/a/b"); err != nil {
			t.Errorf("sync %d failed, and the next MkdirAll did not: %v", nth, err)
		}
	}
}
