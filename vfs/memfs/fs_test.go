package memfs

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

func TestClone_IsIndependent(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		type pair struct {
			clone *FS
			want  map[string]string
			// unsynced is the number of unsynced operations, durable the durable image.
			unsynced int
			durable  map[string]string
		}
		var pairs []pair
		for range 40 {
			for range 5 {
				w.step()
			}
			c := w.disk.Clone()
			pairs = append(pairs, pair{c, dump(t, w.disk), len(w.disk.Unsynced()),
				dump(t, w.disk.Crash(KeepNone, rng))})
			if rng.IntN(3) == 0 {
				// Changes of a clone must not appear on its source or other clones.
				scribble(t, w.disk.Clone(), rng)
			}
		}
		for _, p := range pairs {
			wantSameDisk(t, dump(t, p.clone), p.want)
			if got := len(p.clone.Unsynced()); got != p.unsynced {
				t.Fatalf("the clone has %d unsynced operations, want %d", got, p.unsynced)
			}
			wantSameDisk(t, dump(t, p.clone.Crash(KeepNone, rng)), p.durable)
			scribble(t, p.clone, rng)
		}
		for i, p := range pairs {
			if i%7 == 0 {
				wantSameDisk(t, dump(t, p.clone.Crash(KeepNone, rng)), p.durable)
			}
		}
	})
}

func TestClone_JournalsGrowApart(t *testing.T) {
	t.Parallel()
	m := New()
	f := create(t, m, "/a", "")
	must(t, m.SyncDir("/"))
	for i := range 5 {
		// Five entries leave spare capacity for the next append.
		write(t, f, int64(i)*4096, "common")
		closeFile(t, create(t, m, fmt.Sprint("/common", i), ""))
	}
	c := m.Clone()
	write(t, f, 0, "source")
	g, err := c.OpenReadWrite("/a", vfs.CatLog)
	must(t, err)
	write(t, g, 0, "cloned")
	closeFile(t, create(t, m, "/m", ""))
	closeFile(t, create(t, c, "/c", ""))
	rng := testRand(1)
	if got := fileContents(t, m.Crash(KeepAll, rng), "/a")[:6]; got != "source" {
		t.Fatalf("source: got %q", got)
	}
	if got := fileContents(t, c.Crash(KeepAll, rng), "/a")[:6]; got != "cloned" {
		t.Fatalf("clone: got %q", got)
	}
	if got := fileContents(t, c.CrashKeeping(func(i int) bool { return true }), "/a")[:6]; got != "cloned" {
		t.Fatalf("journal of the clone: got %q", got)
	}
	for name, disk := range map[string]*FS{"m": m, "c": c} {
		names, err := disk.CrashKeeping(func(int) bool { return true }).List("/")
		must(t, err)
		want := []string{"a", "common0", "common1", "common2", "common3", "common4", name}
		slices.Sort(want)
		if !slices.Equal(names, want) {
			t.Fatalf("got names %v, want %v", names, want)
		}
	}
}

func TestClone_HasNoLocksAndHandles(t *testing.T) {
	t.Parallel()
	m := New()
	held, err := m.Lock("/LOCK")
	must(t, err)
	defer closeFile(t, held)
	c := m.Clone()
	again, err := c.Lock("/LOCK")
	must(t, err)
	closeFile(t, again)
	after, err := m.Crash(KeepAll, testRand(1)).Lock("/LOCK")
	must(t, err)
	closeFile(t, after)
	_, err = m.Lock("/LOCK")
	wantIs(t, err, vfs.ErrLocked)
}

// TestClone_WhileWritersRun makes clones and crashes while goroutines append and sync
// numbered records. Every crash state must have the records that were synced before the
// clone, and must have a prefix of the records without holes.
func TestClone_WhileWritersRun(t *testing.T) {
	t.Parallel()
	const writers, records = 4, 300
	m := New()
	must(t, m.MkdirAll("/db"))
	var acked [writers]atomic.Int64
	var wg sync.WaitGroup
	for w := range writers {
		f, err := m.Create(fmt.Sprintf("/db/%d", w), vfs.CatLog)
		must(t, err)
		must(t, m.SyncDir("/db"))
		wg.Go(func() {
			for i := range int64(records) {
				record := binary.LittleEndian.AppendUint64(nil, uint64(i+1))
				if _, err := f.WriteAt(record, i*8); err != nil {
					t.Error(err)
				}
				if i%3 != 0 {
					continue
				}
				if err := f.SyncData(); err != nil {
					t.Error(err)
				}
				acked[w].Store(i + 1)
				name := fmt.Sprintf("/db/tmp%d-%d", w, i)
				if g, err := m.Create(name, vfs.CatTemp); err != nil {
					t.Error(err)
				} else {
					_ = g.Close()
				}
				if err := m.Remove(name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	rng := testRand(7)
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		var before [writers]int64
		for w := range before {
			before[w] = acked[w].Load()
		}
		c := m.Clone()
		for w := range before {
			name := fmt.Sprintf("/db/%d", w)
			live := fileContents(t, c, name)
			for i := range len(live) / 8 {
				if got := binary.LittleEndian.Uint64([]byte(live[i*8:])); got != uint64(i+1) {
					t.Fatalf("writer %d: record %d of the clone is %d", w, i, got)
				}
			}
			after := fileContents(t, c.Crash(KeepNone, rng), name)
			if int64(len(after)) < before[w]*8 {
				t.Fatalf("writer %d: %d records survived, %d were synced", w, len(after)/8, before[w])
			}
			wantContents(t, after, live[:len(after)])
		}
	}
}

func TestHook_RunsBeforeEachOperation(t *testing.T) {
	t.Parallel()
	m := New()
	var seen []string
	m.SetHook(func(op vfs.Op) {
		seen = append(seen, op.String())
		// The disk is not locked, and the operation has not happened.
		c := m.Clone()
		if op.Kind == vfs.OpCreate {
			if _, err := c.Stat(op.Path); err == nil {
				t.Errorf("%s: the file is there already", op)
			}
		}
	})
	must(t, m.MkdirAll("/db"))
	f, err := m.Create("/db/a", vfs.CatTable)
	must(t, err)
	write(t, f, 10, "12345")
	must(t, f.Truncate(12))
	must(t, reserve(f, 0, 100))
	must(t, f.SyncRange(0, 100))
	must(t, f.SyncData())
	must(t, f.Sync())
	must(t, m.Rename("/db/a", "/db/b"))
	must(t, m.Link("/db/b", "/db/c"))
	must(t, m.Remove("/db/c"))
	must(t, m.SyncDir("/db"))
	held, err := m.Lock("/db/LOCK")
	must(t, err)
	closeFile(t, held)
	closeFile(t, f)
	m.SetHook(nil)
	must(t, m.Remove("/db/b"))
	want := []string{
		"sync directory /", "mkdir /db", "sync directory /", "create /db/a",
		"write /db/a [10, 15)", "truncate /db/a to 12", "preallocate /db/a [0, 100)",
		"sync data /db/a", "sync /db/a", "rename /db/a to /db/b",
		"link /db/b to /db/c", "remove /db/c", "sync directory /db", "lock /db/LOCK",
	}
	if !slices.Equal(seen, want) {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
}

func TestCapacity_IsEnforced(t *testing.T) {
	t.Parallel()
	m := New()
	m.SetCapacity(10 * pageSize)
	f := create(t, m, "/a", "")
	n, err := f.WriteAt(make([]byte, 12*pageSize), 100)
	wantIs(t, err, vfs.ErrNoSpace)
	if n != 10*pageSize-100 {
		t.Fatalf("wrote %d bytes before the disk was full, want %d", n, 10*pageSize-100)
	}
	if free, err := m.Free("/"); err != nil || free != 0 {
		t.Fatalf("got %d free, %v", free, err)
	}
	write(t, f, 0, "what is allocated can be written")
	must(t, f.Truncate(20*pageSize)) // a hole takes no space
	_, err = f.WriteAt([]byte("x"), 15*pageSize)
	wantIs(t, err, vfs.ErrNoSpace)
	wantIs(t, reserve(f, 9*pageSize, 2*pageSize), vfs.ErrNoSpace)
	must(t, f.Truncate(9*pageSize))
	must(t, reserve(f, 9*pageSize, pageSize))
	must(t, m.Remove("/a"))
	if free, err := m.Free("/"); err != nil || free != 0 {
		t.Fatalf("an open file gave its space back: %d free, %v", free, err)
	}
	mapping, err := f.Map(1)
	must(t, err)
	closeFile(t, f)
	if m.UsedBytes() == 0 {
		t.Fatal("a mapped file gave its space back")
	}
	closeFile(t, mapping)
	if used := m.UsedBytes(); used != 0 {
		t.Fatalf("%d bytes are in use on an empty disk", used)
	}
}

func TestUsedBytes_AreEqualAfterCloneAndCrash(t *testing.T) {
	t.Parallel()
	eachSeed(t, func(t *testing.T, rng *rand.Rand) {
		w := newWorkload(t, rng)
		for range *crashSteps {
			w.step()
		}
		for _, f := range w.open {
			must(t, f.Sync())
			closeFile(t, f)
		}
		for _, dir := range w.dirs {
			must(t, w.disk.SyncDir(dir))
		}
		// A removed file takes no space, although a crash may bring it back.
		closeFile(t, create(t, w.disk, "/removed", "contents"))
		must(t, w.disk.SyncDir("/"))
		must(t, w.disk.Remove("/removed"))
		used := w.disk.UsedBytes()
		if got := w.disk.Clone().UsedBytes(); got != used {
			t.Errorf("the clone uses %d bytes, its source %d", got, used)
		}
		must(t, w.disk.SyncDir("/"))
		if got := w.disk.Crash(Mixed, rng).UsedBytes(); got != used {
			t.Errorf("after the crash %d bytes are used, before %d", got, used)
		}
		for name, contents := range dump(t, w.disk) {
			if contents != "directory" {
				must(t, w.disk.Remove(name))
			}
		}
		if used := w.disk.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are in use on an empty disk", used)
		}
	})
}

func TestPreallocate_OnlyGrowsWithoutReservation(t *testing.T) {
	t.Parallel()
	only := New()
	only.SetReserves(false)
	ruled := faultfs.New(New())
	ruled.Add(faultfs.Rule{Op: vfs.OpPreallocate, Forever: true, Err: vfs.ErrUnsupported})
	for what, fs := range map[string]vfs.FS{"a disk": only, "its clone": only.Clone(), "what a crash leaves of it": only.Crash(KeepNone, nil), "a rule": ruled} {
		f := create(t, fs, "/a", "x")
		for _, n := range []int64{3 * pageSize, pageSize} {
			if reserved, err := f.Preallocate(0, n); reserved || err != nil {
				t.Fatalf("%s: reserved %v, %v", what, reserved, err)
			}
		}
		if info, err := fs.Stat("/a"); err != nil || info.Size != 3*pageSize || info.Allocated != pageSize {
			t.Errorf("%s: %+v, %v", what, info, err)
		}
		closeFile(t, f)
	}
	f := create(t, New(), "/a", "x")
	defer closeFile(t, f)
	if reserved, err := f.Preallocate(0, pageSize); !reserved || err != nil {
		t.Errorf("a new disk: reserved %v, %v", reserved, err)
	}
}

func TestWriteAt_HugeOffsetIsAnError(t *testing.T) {
	t.Parallel()
	f := create(t, New(), "/a", "x")
	_, err := f.WriteAt([]byte("y"), 1<<60)
	wantIs(t, err, vfs.ErrNoSpace)
	wantIs(t, f.Truncate(1<<60), vfs.ErrNoSpace)
	wantIs(t, reserve(f, 1<<60, 1), vfs.ErrNoSpace)
	wantContents(t, contents(t, f), "x")
}

func TestVolatile_KeepsNoJournal(t *testing.T) {
	t.Parallel()
	m := NewVolatile()
	f := create(t, m, "/a", "never synced")
	if ops := m.Unsynced(); len(ops) != 0 {
		t.Fatalf("got %d journaled operations", len(ops))
	}
	wantContents(t, fileContents(t, m.Crash(KeepNone, testRand(1)), "/a"), "never synced")
	must(t, m.Remove("/a"))
	if _, err := m.Clone().Stat("/a"); err == nil {
		t.Fatal("the clone has a file that was removed")
	}
	wantContents(t, contents(t, f), "never synced")
	closeFile(t, f)
	if n := len(m.mu.inodes); n != 1 {
		t.Fatalf("%d inodes are left on an empty disk, want the root", n)
	}
}

func TestRemove_DeletesTheInode(t *testing.T) {
	t.Parallel()
	m := New()
	for i := range 100 {
		name := fmt.Sprint("/", i)
		closeFile(t, create(t, m, name, "x"))
		must(t, m.SyncDir("/"))
		must(t, m.Remove(name))
		must(t, m.SyncDir("/"))
	}
	if n := len(m.mu.inodes); n != 1 {
		t.Fatalf("%d inodes are left on an empty disk, want the root", n)
	}
}

func TestMap_SharesTheStorage(t *testing.T) {
	t.Parallel()
	m := NewVolatile()
	f := create(t, m, "/a", strings.Repeat("x", 1<<20))
	first := f.(*file).ino.mapLocked(1 << 20)
	second := f.(*file).ino.mapLocked(1000)
	if &first[0] != &second[0] {
		t.Fatal("the second mapping copied the file")
	}
	if p := f.(*file).ino.live.peek(0, 5); &p[0] != &first[5*pageSize] {
		t.Fatal("the mapping is a copy beside the storage")
	}
	// A write to a clone must not appear in a mapping of the source.
	g, err := m.Clone().OpenReadWrite("/a", vfs.CatTable)
	must(t, err)
	write(t, g, 0, "clone")
	if first[0] != 'x' {
		t.Fatal("a write to a clone shows in a mapping")
	}
}

func BenchmarkClone(b *testing.B) {
	for _, size := range []int64{1 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("20 files of %d MiB", size>>20), func(b *testing.B) {
			m := New()
			var f vfs.File
			for i := range 20 {
				var err error
				if f, err = m.Create(fmt.Sprint("/", i), vfs.CatTable); err != nil {
					b.Fatal(err)
				}
				buf := make([]byte, 1<<20)
				for off := int64(0); off < size; off += 1 << 20 {
					if _, err := f.WriteAt(buf, off); err != nil {
						b.Fatal(err)
					}
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				m.Clone()
				if _, err := f.WriteAt([]byte("changed"), 12345); err != nil {
					b.Fatal(err)
				}
				if err := f.Sync(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkReadAt(b *testing.B) {
	m := NewVolatile()
	f, err := m.Create("/a", vfs.CatTable)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 1<<20), 0); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 4096)
	b.SetBytes(4096)
	for b.Loop() {
		if _, err := f.ReadAt(buf, 8192); err != nil && err != io.EOF {
			b.Fatal(err)
		}
	}
}

// BenchmarkCrash makes crash states of a disk of 1.25 GiB with 100 unsynced writes of
// 4 KiB.
func BenchmarkCrash(b *testing.B) {
	m := New()
	var files []vfs.File
	buf := make([]byte, 1<<20)
	for i := range 20 {
		f, err := m.Create(fmt.Sprint("/", i), vfs.CatTable)
		if err != nil {
			b.Fatal(err)
		}
		for off := int64(0); off < 64<<20; off += 1 << 20 {
			if _, err := f.WriteAt(buf, off); err != nil {
				b.Fatal(err)
			}
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		files = append(files, f)
	}
	if err := m.SyncDir("/"); err != nil {
		b.Fatal(err)
	}
	rng := testRand(1)
	for i := range 100 {
		if _, err := files[i%5].WriteAt(buf[:4096], rng.Int64N(64<<20)); err != nil {
			b.Fatal(err)
		}
	}
	for _, kind := range []CrashKind{KeepNone, KeepAll, Torn, Mixed} {
		b.Run(kind.String(), func(b *testing.B) {
			for b.Loop() {
				m.Crash(kind, rng)
			}
		})
	}
}
