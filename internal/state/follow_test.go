package state

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// newFollower returns a store that follows, with an empty database.
func newFollower(t *testing.T) (*Store, manifest.State) {
	t.Helper()
	fs := memfs.New()
	number := uint64(0)
	random := func() uint64 { number++; return number }
	if err := fs.MkdirAll("/db"); err != nil {
		t.Fatal(err)
	}
	first := manifest.State{FormatVersion: manifest.FormatVersion, Keyspaces: []*manifest.Keyspace{{}}}
	m, err := manifest.Create(fs, "/db", first, random, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	follows, s, err := manifest.Follow(fs, "/db", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = follows.Close() })
	store := New(Options{FS: fs, Dir: "/db", ReadOnly: true, Follows: true, Clock: base.SystemClock{},
		Executor: new(work.Executor), Report: func(any) {}, MemtableSize: 64 << 10, MemoryBudget: 1 << 20,
		Manifest: follows, State: s, Freed: func() {},
		Files: func(func() bool) *tree.Files { return tree.New(tree.Options{FS: fs, Dir: "/db"}) }})
	store.SetHooks(Hooks{Sweep: func() {}, Swept: func(bool) {}})
	return store, s
}

// readBeside begins snapshots on two goroutines while write runs, and then shuts the store.
// right judges the newest version in the view of a snapshot, and the version of the snapshot.
func readBeside(t *testing.T, store *Store, right func(newest, seq base.SeqNum) bool, write func()) {
	t.Helper()
	var ended atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !ended.Load() {
				slot, err := store.Acquire()
				if err != nil {
					t.Error(err)
					return
				}
				v, seq := store.BeginSnapshot(slot)
				newest := v.Memtables[0].LastSeq()
				store.Release(slot)
				if !right(newest, seq) {
					t.Errorf("a snapshot of version %d has a view that ends with version %d", seq, newest)
					return
				}
			}
		})
	}
	write()
	ended.Store(true)
	readers.Wait()
	store.Closing()
	store.Shut()
}

// A follower fills one memtable after the other. The version that a reader gets must be in
// its view.
func TestBeginSnapshot_TheViewHasAllOfTheVersion(t *testing.T) {
	t.Parallel()
	store, _ := newFollower(t)
	right := func(newest, seq base.SeqNum) bool { return newest >= seq }
	readBeside(t, store, right, func() {
		for n := range base.SeqNum(20_000) {
			m := store.Memory.NewTable(0)
			if err := m.Set([]byte("key"), nil, 0, base.Meta{Kind: base.KindSet}, n+1); err != nil {
				t.Error(err)
			}
			store.AddMemtables(base.SegmentRef{}, m)
			store.SetVisible(n + 1)
			if n%16 == 15 { // the list of memtables stays short
				store.Follow(store.State(), []*memtable.Table{m}, n+1)
			}
		}
	})
}

// A memtable of version n has a key that only version n sees. A reader must get the view
// and the version of one moment, also if the version goes back.
func TestBeginSnapshot_ViewAndVersionAreOfOneMoment(t *testing.T) {
	t.Parallel()
	store, s := newFollower(t)
	show := func(n base.SeqNum) {
		m := store.Memory.NewTable(0)
		if err := m.Set([]byte("key"), nil, 0, base.Meta{Kind: base.KindSet}, n); err != nil {
			t.Error(err)
		}
		store.Follow(s, []*memtable.Table{m}, n)
	}
	show(1)
	right := func(newest, seq base.SeqNum) bool { return newest == seq }
	readBeside(t, store, right, func() {
		for n := range base.SeqNum(4_000) {
			show(1 + n%7)
		}
	})
}

// A writer whose last edit is lost has replaced a file. The next writer has it again.
func TestKeep_AFileThatIsBackIsNotSwept(t *testing.T) {
	t.Parallel()
	store, without := newFollower(t)
	memtables := store.View().Memtables
	with, err := without.Apply(manifest.Edit{NextFile: manifest.Some(uint64(6)), AddTables: []*manifest.Table{{Num: 5, Size: 100, Salt: 1, Entries: 1, Smallest: []byte("a"), Largest: []byte("b")}}})
	if err != nil {
		t.Fatal(err)
	}
	store.Follow(with, memtables, 1)
	slot, err := store.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	store.Begin(slot)
	waiting := func(want int, when string) {
		t.Helper()
		if files, _, _ := store.ObsoleteFiles(); files != want {
			t.Errorf("%s, %d files wait to be closed, want %d", when, files, want)
		}
	}
	store.Follow(without, memtables, 1)
	waiting(1, "after the file is gone")
	store.Discard(store.Keep(with.Version))
	waiting(1, "after a version that was not shown")
	if kept := store.Keep(without.Version); len(kept) > 0 {
		t.Errorf("a version without files keeps %d", len(kept))
	}
	store.Keep(with.Version)
	store.Follow(with, memtables, 1)
	waiting(0, "after the file is back")
	store.Release(slot)
	store.Closing()
	store.Shut()
}

// A caller may find the database open, and take a slot after the last reader. It is refused.
// Until then, its slot shows what an earlier holder has read.
func TestShut_DeletesWhatTheSlotOfARefusedCallerShows(t *testing.T) {
	t.Parallel()
	store, s := newFollower(t)
	show := func(n base.SeqNum) {
		m := store.Memory.NewTable(0)
		if err := m.Set([]byte("key"), nil, 0, base.Meta{Kind: base.KindSet}, n); err != nil {
			t.Fatal(err)
		}
		store.Follow(s, []*memtable.Table{m}, n)
	}
	show(1)
	slot, err := store.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	store.Begin(slot)
	show(2)
	store.Sweep()
	if store.ObsoleteMemtableBytes() == 0 {
		t.Fatal("a reader keeps no memtable")
	}
	store.Closing()
	earlier := slot.Data.reads.Load()
	store.Release(slot)
	late := store.readers.Acquire(&store.visible)
	late.Data.reads.Store(earlier) // whichever slot it is
	if store.deleteObsolete(); !store.ObsoleteEmpty() || store.ObsoleteMemtableBytes() > 0 {
		t.Errorf("%d bytes of memtables are left", store.ObsoleteMemtableBytes())
	}
	store.Release(late)
	if store.Shut(); store.Memory.Taken() > 0 {
		t.Errorf("%d bytes of memory have not been given back", store.Memory.Taken())
	}
}
