package spaces

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/testing/parts"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An engine is a database in which only the test runs jobs, and its keyspaces.
type engine struct {
	*parts.Engine
	*Registry
	faults *faultfs.FS
	freed  [][2][]byte // the ranges that were to be freed
	woken  int         // wake-ups of the dropper
	looked int         // wake-ups of the compactor
	told   []any       // the events
}

// noJobs are the jobs of a database that never flushes.
type noJobs struct{}

func (noJobs) Installed(*manifest.State, *manifest.Edit)        {}
func (noJobs) Swept(bool)                                       {}
func (noJobs) Need(*manifest.Version, uint64) (need space.Need) { return need }
func (noJobs) FlushNext() (bool, error)                         { return false, nil }

func newEngine(t *testing.T) *engine {
	t.Helper()
	faults := faultfs.New(memfs.New())
	e := &engine{faults: faults, Engine: parts.New(t, parts.Options{FS: faults, MemtableSize: 1 << 20, TableSize: 1 << 20})}
	e.Start(noJobs{})
	e.anew()
	return e
}

// anew is what a new opening does: the registry knows only what the manifest says.
func (e *engine) anew() {
	e.Registry = New(Options{
		Store: e.Store, Commits: e.Commits, Group: e.Group, HashSeed: e.HashSeed,
		Free: func(_ context.Context, lo, hi []byte) error {
			e.freed = append(e.freed, [2][]byte{lo, hi})
			return nil
		},
		Changed: func([]*manifest.Keyspace) {},
		Dropped: func() { e.woken++ }, Discarded: func() { e.looked++ },
		Report: func(event any) { e.told = append(e.told, event) },
	})
}

// open opens or creates a keyspace.
func (e *engine) open(name string) *Handle {
	e.T.Helper()
	h, err := e.Open(name, func(*manifest.Settings, bool) error { return nil }, nil)
	e.Must(err)
	return h
}

// timed opens or creates a keyspace with timestamps.
func (e *engine) timed(name string) *Handle {
	e.T.Helper()
	h, err := e.Open(name, func(s *manifest.Settings, _ bool) error {
		s.Timestamps = manifest.TimestampsChecked
		return nil
	}, nil)
	e.Must(err)
	return h
}

// set commits a key of a keyspace, through its gate.
func (e *engine) set(h *Handle, key string) error {
	w := e.Commits.NewWriteSet()
	defer e.Commits.FreeWriteSet(w)
	w.Pass(&h.Gate)
	stored := h.Space.Append(nil, []byte(key))
	e.Must(w.Pending.Set(stored, nil, base.Hash(stored, e.HashSeed), base.Meta{Kind: base.KindSet}, 0))
	return e.Commits.Submit(e.T.Context(), w.Request(e.Store.Visible(), false))
}

// step does the step of the dropper, and reports whether it wants another one.
func (e *engine) step() (again bool) {
	e.T.Helper()
	after, err := e.Step()
	e.Must(err)
	return after > 0
}

// knows reports whether the manifest knows the number of a keyspace.
func (e *engine) knows(h *Handle) bool {
	s := e.Store.State()
	_, ok := s.Keyspace(h.Space.Number())
	return ok
}

func TestCheckName_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"": "empty", "a\x00": "zero byte", "\xc3": "UTF-8",
		strings.Repeat("n", 256): "256 bytes, of at most 255", strings.Repeat("n", 255): "", "Schlüssel": "", " ": ""} {
		if got := CheckName(name); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%.10q: %q, want %q", name, got, want)
		}
	}
}

func TestDrop_AnEmptyKeyspaceIsForgottenAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	h := e.open("one")
	e.Must(e.Drop(t.Context(), "one"))
	if e.woken != 1 || !e.Dropping() || !e.knows(h) {
		t.Errorf("after the drop: %d wake-ups, dropping %t", e.woken, e.Dropping())
	}
	if e.step() || e.Dropping() || e.knows(h) || len(e.freed) > 0 {
		t.Errorf("the dropper leaves the keyspace, or frees %q", e.freed)
	}
	if again := e.open("one"); again.Space.Number() <= h.Space.Number() {
		t.Errorf("the new keyspace has the number %d, the old one had %d", again.Space.Number(), h.Space.Number())
	}
}

func TestDrop_FreesOnlyWhenNoOlderSnapshotIsLeft(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	h := e.open("one")
	e.Must(e.set(h, "k"))
	slot, err := e.Store.Acquire()
	e.Must(err)
	e.Must(e.Drop(t.Context(), "one"))
	if h.GoneFor(slot.Seq()) || !h.GoneFor(e.Store.Visible()) {
		t.Error("the older snapshot has lost the keyspace, or the newer one has it")
	}
	if !e.step() || len(e.freed) > 0 {
		t.Errorf("%q was freed under a reader", e.freed)
	}
	e.Store.Release(slot)
	lo, hi := h.Space.Bounds()
	if !e.step() || len(e.freed) != 1 || !bytes.Equal(e.freed[0][0], lo) || !bytes.Equal(e.freed[0][1], hi) {
		t.Errorf("%q was freed, want %q", e.freed, [2][]byte{lo, hi})
	}
	if last := e.Commits.LastSeq(); last != base.SeqNum(h.deleted.Load()) {
		t.Errorf("the last commit is %d: another deletion than %d, although no crash took it", last, base.SeqNum(h.deleted.Load()))
	}
	if !e.knows(h) {
		t.Error("the keyspace was forgotten while a memtable has a key of it")
	}
}

func TestStep_WhileAnOlderSnapshotIsOpenOnlyTheFirstOneReadsTheTree(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	full, empty := e.open("full"), e.open("empty")
	e.Must(e.set(full, "k"))
	slot, err := e.Store.Acquire()
	e.Must(err)
	e.Must(e.Drop(t.Context(), "full"))
	e.Must(e.Drop(t.Context(), "empty"))
	reads := func() (again bool, n uint64) { // counts readers: each read of the tree begins one
		before, _ := e.Store.Reading()
		again = e.step()
		after, _ := e.Store.Reading()
		return again, after - before
	}
	if again, n := reads(); !again || n == 0 || !e.knows(full) || e.knows(empty) {
		t.Errorf("the first step reads the tree %d times, again %t; known are the full keyspace %t, the empty one %t",
			n, again, e.knows(full), e.knows(empty))
	}
	for range 2 {
		if again, n := reads(); !again || n > 0 || !e.knows(full) {
			t.Errorf("a later step reads the tree %d times, again %t", n, again)
		}
	}
	e.Store.Release(slot)
	if _, n := reads(); n == 0 || len(e.freed) != 1 {
		t.Errorf("after the snapshot, the step reads the tree %d times, and frees %q", n, e.freed)
	}
}

func TestStep_FreesDroppedNeighboursTogether(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	var all []*Handle
	for _, name := range []string{"a", "b", "kept", "c", "empty", "d"} {
		h := e.open(name)
		if name != "empty" {
			e.Must(e.set(h, "k"))
		}
		all = append(all, h)
	}
	for _, name := range []string{"a", "b", "c", "empty", "d"} {
		e.Must(e.Drop(t.Context(), name))
	}
	var want [][2][]byte
	// The stub frees nothing, so each keyspace follows by itself.
	for _, ends := range [][2]int{{0, 1}, {3, 5}, {0, 0}, {1, 1}, {3, 3}, {5, 5}} {
		lo, _ := all[ends[0]].Space.Bounds()
		_, hi := all[ends[1]].Space.Bounds()
		want = append(want, [2][]byte{lo, hi})
	}
	for _, again := range []bool{false, true} { // also after another opening
		if again {
			e.anew()
			e.freed = nil
		}
		if e.step(); !reflect.DeepEqual(e.freed, want) {
			t.Errorf("opened again %t: %q was freed, want %q", again, e.freed, want)
		}
	}
}

func TestDrop_RefusesLaterCommits(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	h := e.open("one")
	e.Must(e.Drop(t.Context(), "one"))
	before := e.Store.Visible()
	if err := e.set(h, "k"); !errors.Is(err, base.ErrNoKeyspace) || e.Store.Visible() != before {
		t.Errorf("a commit into a dropped keyspace: %v", err)
	}
	if err := e.Drop(t.Context(), "one"); !errors.Is(err, base.ErrNoKeyspace) {
		t.Errorf("a second drop: %v", err)
	}
}

// failDrop drops a keyspace while the log has no room for the commit of the deletion.
func (e *engine) failDrop(name string) {
	e.T.Helper()
	for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpOpenReadWrite} {
		e.faults.Add(faultfs.Rule{Category: vfs.CatLog, Op: op, Forever: true, Err: vfs.ErrNoSpace})
	}
	defer e.faults.Clear()
	other := e.open("other")
	err := error(nil)
	for err == nil {
		err = e.set(other, "k")
	}
	if !errors.Is(err, vfs.ErrNoSpace) {
		e.T.Fatal(err)
	}
	if err := e.Drop(e.T.Context(), name); !errors.Is(err, vfs.ErrNoSpace) {
		e.T.Fatalf("a drop without room for its commit: %v", err)
	}
}

func TestDrop_WhenItsCommitFailsReadersLearnTheDropFromTheDropper(t *testing.T) {
	t.Parallel()
	for what, furnish := range map[string]func(e *engine, h *Handle){
		"empty": func(*engine, *Handle) {},
		"a key": func(e *engine, h *Handle) { e.Must(e.set(h, "k")) },
		"a deleted key": func(e *engine, h *Handle) {
			e.Must(e.set(h, "k"))
			_, err := e.deleteAll(e.T.Context(), &h.Space, nil)
			e.Must(err)
			e.tombstones.Delete(h.Space.Number())
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			h := e.open("one")
			furnish(e, h)
			e.failDrop("one")
			slot, err := e.Store.Acquire()
			e.Must(err)
			if h.GoneFor(slot.Seq()) || !e.Dropping() || e.woken != 1 {
				t.Fatalf("after the drop: gone %t, dropping %t, %d wake-ups", h.GoneFor(slot.Seq()), e.Dropping(), e.woken)
			}
			e.step()
			if h.GoneFor(slot.Seq()) || !h.GoneFor(e.Store.Visible()) {
				t.Error("the older snapshot has lost the keyspace, or the newer one has it")
			}
			e.Store.Release(slot)
			before := e.Store.Visible()
			if again := e.step(); again != (what != "empty") || again != e.knows(h) {
				t.Errorf("the next step: again %t", again)
			}
			if n := e.Store.Visible() - before; n > 0 {
				t.Errorf("the dropper has committed %d times more", n)
			}
		})
	}
}

func TestStep_AKeyspaceWhoseDropIsUnderWayIsKept(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	h := e.open("one")
	_, err := e.undefine("one")
	e.Must(err)
	if !e.step() || !e.knows(h) {
		t.Error("the keyspace was forgotten before the commit of its deletion")
	}
}

// A crash between the edit and the commit leaves the keys.
func TestDrop_RepeatsOnlyAMissingDeletion(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	h := e.open("one")
	e.Must(e.set(h, "k"))
	_, err := e.undefine("one")
	e.Must(err)
	// The second opening finds the deletion. But the stub frees nothing, so it could be an older
	// one, and the dropper commits another.
	for opening := range 2 {
		e.anew()
		before := e.Store.Visible()
		if !e.Dropping() || !e.step() {
			t.Errorf("opening %d: the dropper finds nothing to do", opening)
		}
		if n := e.Store.Visible() - before; n != 1 {
			t.Errorf("opening %d: %d commits of the dropper, want 1", opening, n)
		}
	}
}

func TestOpen_ChangesSettingsInOneEdit(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	versions := func(n uint32) Change {
		return func(s *manifest.Settings, _ bool) error { s.NumVersions = n; return nil }
	}
	h, err := e.Open("one", versions(3), nil)
	e.Must(err)
	_, err = e.Open("one", versions(5), nil)
	e.Must(err)
	s := e.Store.State()
	if k, _ := s.Keyspace(h.Space.Number()); k.Settings.NumVersions != 5 || s.NextKeyspace != 2 {
		t.Errorf("the manifest has %+v, and the next number %d", k, s.NextKeyspace)
	}
	refused, readOnly := errors.New("refused"), errors.New("read-only")
	if _, err := e.Open("two", func(*manifest.Settings, bool) error { return refused }, nil); err != refused || len(e.Store.State().Keyspaces) != 2 {
		t.Errorf("a refused change: %v", err)
	}
	if _, err := e.Open("two", versions(1), readOnly); !errors.Is(err, base.ErrNoKeyspace) {
		t.Errorf("a new keyspace of a read-only database: %v", err)
	}
	if _, err := e.Open("one", versions(6), readOnly); err != readOnly {
		t.Errorf("a change of a read-only database: %v", err)
	}
	if len(e.told) != 1 || e.looked != 1 {
		t.Errorf("the events are %+v, want one of the change from 3 to 5 versions; the compactor was woken %d times", e.told, e.looked)
	}
}

func TestFollowed_DiscardPointsRiseBeforeTheViewAndDropsComeAfterIt(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.open("stamped")
	e.open("dropped")
	var table []*manifest.Keyspace
	for _, k := range e.Store.State().Keyspaces {
		next := *k
		switch next.Name {
		case "stamped":
			next.Settings.DiscardBelow = 7
		case "dropped":
			next.Dropping = true
		}
		table = append(table, &next)
	}
	e.anew()
	stamped, dropped := e.open("stamped"), e.open("dropped")
	shown := e.Followed(table)
	if stamped.Gate.Floor() != 7 || dropped.GoneFor(100) {
		t.Errorf("before the view, the discard point is %d, dropped %t", stamped.Gate.Floor(), dropped.GoneFor(100))
	}
	shown(5)
	if dropped.GoneFor(4) || !dropped.GoneFor(5) {
		t.Error("the keyspace is not gone from version 5 on")
	}
}

func TestAll_HasWhatTheSnapshotSeesInTheOrderOfCreation(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.open("z")
	e.open("dropped")
	e.Must(e.Drop(t.Context(), "dropped"))
	begun := func() error { return nil }
	names := func() (all []string) {
		handles, err := e.All(begun)
		e.Must(err)
		for _, h := range handles {
			all = append(all, h.Name)
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{"z"}) {
		t.Errorf("the keyspaces are %q", got)
	}
	e.open("y")
	e.Must(e.Drop(t.Context(), "z"))
	e.open("z")
	if got := names(); !slices.Equal(got, []string{"y", "z"}) {
		t.Errorf("the keyspaces are %q", got)
	}
	refused := errors.New("refused")
	if all, err := e.All(func() error { return refused }); err != refused || all != nil {
		t.Errorf("without a snapshot: %d keyspaces, %v", len(all), err)
	}
}

func TestDrop_NothingIsLeftOfTheDiscardPointsOfDroppedKeyspaces(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for i := range uint64(1000) {
		h := e.timed("passing")
		e.Must(e.DiscardBelow(h, i+1))
		if len(e.Raised()) != 1 {
			t.Fatalf("keyspace %d has no discard point", h.Space.Number())
		}
		e.Must(e.Drop(t.Context(), "passing"))
		if e.step(); e.knows(h) {
			t.Fatalf("the dropper leaves keyspace %d", h.Space.Number())
		}
	}
	if n := len(e.raises.of) + len(e.Raised()); n > 0 {
		t.Errorf("the discard points of %d dropped keyspaces are left", n)
	}
}

func TestRaised_WhatJobsHoldDoesNotChange(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	first, second, third := e.timed("first"), e.timed("second"), e.timed("third")
	points := func(raised []*compact.Raise) (all []uint64) {
		for _, r := range raised {
			all = append(all, r.Point)
		}
		return all
	}
	if n := len(e.Raised()); n > 0 {
		t.Errorf("%d discard points rose, want none", n)
	}
	e.Must(e.DiscardBelow(third, 5))
	e.Must(e.DiscardBelow(second, 7))
	held := e.Raised()
	e.Judges(second.Space.Number(), 7, e.Store.Visible())
	e.Must(e.DiscardBelow(third, 8))
	e.Must(e.DiscardBelow(first, 9))
	if got := points(e.Raised()); !slices.Equal(got, []uint64{9, 7, 8}) || !e.Raised()[1].Judged {
		t.Errorf("the discard points are %d, want 9, 7 and 8", got)
	}
	e.Must(e.Drop(t.Context(), "third"))
	if got := points(e.Raised()); !slices.Equal(got, []uint64{9, 7}) {
		t.Errorf("after a drop, the discard points are %d, want 9 and 7", got)
	}
	if got := points(held); !slices.Equal(got, []uint64{7, 5}) || held[0].Judged {
		t.Errorf("a job holds the discard points %d, judged %t, want 7 and 5", got, held[0].Judged)
	}
}
