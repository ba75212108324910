package manifest

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const testDir = "/db"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newTestDisk(t testing.TB) *memfs.FS {
	t.Helper()
	fs := memfs.New()
	must(t, fs.MkdirAll(testDir))
	return fs
}

func testRandom(seed uint64) func() uint64 { return rand.New(rand.NewPCG(seed, 11)).Uint64 }

// firstState returns the state of a new database.
func firstState() State {
	return State{FormatVersion: FormatVersion, ID: [16]byte{1, 2, 3}, HashSeed: 42, Version: new(Version),
		Keyspaces: []*Keyspace{new(Keyspace)}, NextKeyspace: 1}
}

// testSpans returns n spans in order, the last one open.
func testSpans(rng *rand.Rand, n int) []base.LogSpan {
	spans := make([]base.LogSpan, n)
	number := rng.Uint64N(100)
	for i := range spans {
		spans[i].First = base.SegmentRef{Number: number, File: rng.Uint64N(1000), Salt: rng.Uint64()}
		number += rng.Uint64N(10)
		if i < n-1 {
			spans[i].Sealed, spans[i].EndNumber = true, number
			spans[i].End, spans[i].EndChain = 8192+8*rng.Int64N(1000), rng.Uint64()
		}
		number++
	}
	return spans
}

// testEdit returns a random edit that can follow s.
func testEdit(rng *rand.Rand, s State) Edit {
	var e Edit
	if rng.IntN(2) == 0 {
		n := rng.IntN(4)
		if rng.IntN(3) == 0 {
			n = 1 + rng.IntN(500)
		}
		e.Spans = Some(testSpans(rng, n))
	}
	if rng.IntN(2) == 0 {
		e.LastSeq = Some(s.LastSeq + base.SeqNum(rng.Uint64N(1000)))
	}
	if rng.IntN(2) == 0 {
		e.ClockHighMs = Some(s.ClockHighMs + rng.Uint64N(1000))
	}
	if rng.IntN(2) == 0 {
		e.FlushedSeq = Some(s.FlushedSeq + base.SeqNum(rng.Uint64N(1000)))
	}
	e.NextFile = Some(s.NextFile + 1)
	if rng.IntN(3) > 0 {
		addTreeEdit(rng, s, &e)
	}
	if rng.IntN(3) == 0 {
		addKeyspaceEdit(rng, s, &e)
	}
	return e
}

func same(a, b State) bool { return reflect.DeepEqual(a, b) }

func TestLoad_ReturnsTheLastState(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	files := map[uint64]bool{}
	for range 20 {
		for range 12 {
			must(t, s.Append(testEdit(rng, s.State())))
		}
		files[s.mu.file.number] = true
		want := s.State()
		must(t, s.Close())
		reader, state, err := Load(fs, testDir, true, nil, nil)
		must(t, err)
		if !same(state, want) {
			t.Fatalf("read-only: %+v, want %+v", state, want)
		}
		if err := reader.Append(Edit{NextFile: Some(want.NextFile + 1)}); err == nil {
			t.Fatal("a read-only store was appended to")
		}
		must(t, reader.Close())
		if s, state, err = Load(fs, testDir, false, testRandom(2), nil); err != nil {
			t.Fatal(err)
		}
		if !same(state, want) || !same(s.State(), want) {
			t.Fatalf("%+v, want %+v", state, want)
		}
	}
	if len(files) < 5 {
		t.Fatalf("%d files, the test is to take over more often", len(files))
	}
	names, err := fs.List(testDir)
	must(t, err)
	if len(names) != 1 {
		t.Fatalf("left over: %v", names)
	}
}

func TestClose_WithoutAnEditDoesNotGrow(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	must(t, s.Append(Edit{NextFile: Some(uint64(7))}))
	must(t, s.Close())
	for range 100 {
		s, state, err := Load(fs, testDir, false, testRandom(2), nil)
		must(t, err)
		if state.NextFile != 7 || s.mu.file.number != 1 {
			t.Fatalf("%+v in file %d", state, s.mu.file.number)
		}
		must(t, s.Close())
	}
}

// A checkpoint is such a manifest.
func TestLoad_TrustsAClosedSnapshot(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	killed := fs.Clone()
	must(t, s.Close())
	fs.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite {
			t.Errorf("opening and closing does %v", op)
		}
	})
	s, state, err := Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	if !same(state, firstState()) || s.mu.file.number != 1 {
		t.Errorf("%+v in file %d", state, s.mu.file.number)
	}
	must(t, s.Close())
	fs.SetHook(nil)

	s, _, err = Load(killed, testDir, false, testRandom(2), nil)
	must(t, err)
	if s.mu.file.number != 2 {
		t.Error("a snapshot that nothing proves was taken as it is")
	}
	must(t, s.Close())
}

func TestSync_NoneForACleanLoadOneForAnAppend(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	must(t, s.Append(Edit{NextFile: Some(uint64(7))}))
	must(t, s.Close())
	syncs := 0
	fs.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData || op.Kind == vfs.OpSyncDir {
			syncs++
		}
	})
	s, _, err = Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	if syncs != 0 {
		t.Fatalf("Load takes %d syncs", syncs)
	}
	must(t, s.Append(Edit{NextFile: Some(uint64(8))}))
	if syncs != 1 {
		t.Fatalf("Append takes %d syncs", syncs)
	}
}

func TestAppend_RefusedEditChangesNothing(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	first := firstState()
	first.LastSeq, first.ClockHighMs, first.NextFile, first.FlushedSeq = 10, 10, 10, 10
	s, err := Create(fs, testDir, first, testRandom(1), nil)
	must(t, err)
	open, sealed := base.LogSpan{}, base.LogSpan{Sealed: true, EndNumber: 5}
	for name, e := range map[string]Edit{
		"another ID":         {ID: Some([16]byte{9})},
		"another seed":       {HashSeed: Some(uint64(9))},
		"sequence back":      {LastSeq: Some(base.SeqNum(9))},
		"clock back":         {ClockHighMs: Some(uint64(9))},
		"files back":         {NextFile: Some(uint64(9))},
		"flushed back":       {FlushedSeq: Some(base.SeqNum(9))},
		"version back":       {FormatVersion: Some(uint32(0))},
		"open span in front": {Spans: Some([]base.LogSpan{open, open})},
		"spans overlap":      {Spans: Some([]base.LogSpan{sealed, {First: base.SegmentRef{Number: 5}}})},
		"ends before start":  {Spans: Some([]base.LogSpan{{First: base.SegmentRef{Number: 6}, Sealed: true, EndNumber: 5}})},
		"no such sequence":   {LastSeq: Some(base.SeqNumMax + 1)},
		"no such flushed":    {FlushedSeq: Some(base.SeqNumMax + 1)},
		"no such file":       {NextFile: Some(uint64(1 << 62))},
		"no next keyspace":   {NextKeyspace: Some(uint32(0))},
		"no such segment":    {Spans: Some([]base.LogSpan{{First: base.SegmentRef{Number: 1 << 62}}})},
		"no such log file":   {Spans: Some([]base.LogSpan{{First: base.SegmentRef{File: 1 << 62}}})},
		"no such end":        {Spans: Some([]base.LogSpan{{Sealed: true, EndNumber: 1 << 62}})},
		"negative end":       {Spans: Some([]base.LogSpan{{Sealed: true, End: -1}})},
	} {
		if err := s.Append(e); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !same(s.State(), first) {
			t.Errorf("%s: the state changed to %+v", name, s.State())
		}
	}
	must(t, s.Append(Edit{}))
	must(t, s.Append(Edit{LastSeq: Some(base.SeqNum(11))}))
	must(t, s.Close())
	if err := s.Append(Edit{LastSeq: Some(base.SeqNum(12))}); err == nil {
		t.Fatal("a closed store was appended to")
	}
	must(t, s.Close())
}

func TestLoad_WithoutAManifest(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	if _, _, err := Load(fs, "/nowhere", false, nil, nil); !errors.Is(err, vfs.ErrNotExist) || errors.Is(err, ErrMissing) {
		t.Fatalf("no directory: %v", err)
	}
	for _, name := range []string{"LOCK", "MANIFEST-000001.tmp", "notes.txt", "7.log"} {
		f, err := fs.Create(fs.Join(testDir, name), vfs.CatNone)
		must(t, err)
		must(t, f.Close())
	}
	if _, _, err := Load(fs, testDir, false, nil, nil); !errors.Is(err, vfs.ErrNotExist) || errors.Is(err, base.ErrCorrupt) {
		t.Fatalf("a directory without files of a database: %v", err)
	}
	for _, name := range []string{"000007.log", base.TableName(8), base.ValueName(1234567)} {
		f, err := fs.Create(fs.Join(testDir, name), vfs.CatNone)
		must(t, err)
		must(t, f.Close())
		_, _, err = Load(fs, testDir, false, nil, nil)
		if !errors.Is(err, ErrMissing) || !errors.Is(err, base.ErrCorrupt) || errors.Is(err, vfs.ErrNotExist) {
			t.Fatalf("%s without a manifest: %v", name, err)
		}
		if _, err := Create(fs, testDir, firstState(), testRandom(1), nil); !errors.Is(err, ErrMissing) {
			t.Fatalf("Create on top of %s: %v", name, err)
		}
		must(t, fs.Remove(fs.Join(testDir, name)))
	}
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	must(t, s.Close())
	if _, err := Create(fs, testDir, firstState(), testRandom(1), nil); !errors.Is(err, vfs.ErrExist) {
		t.Fatalf("Create on top of a manifest: %v", err)
	}
}

// The edits that free space must get into the manifest first.
func TestDiskFull_AppendWithoutTheUsualRoom(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	usual := s.mu.file.size
	fs.SetCapacity(fs.UsedBytes() + roomMin/4)
	append := func() {
		t.Helper()
		must(t, s.Append(Edit{NextFile: Some(s.State().NextFile + 1)}))
	}
	for first := s.mu.file.number; s.mu.file.number < first+3; append() {
	}
	if s.mu.file.size >= usual {
		t.Fatalf("there was space for %d bytes", s.mu.file.size)
	}
	fs.SetCapacity(1 << 30)
	for first := s.mu.file.number; s.mu.file.number == first; append() {
	}
	if s.mu.file.size < usual {
		t.Errorf("there is space, and a file of %d bytes", s.mu.file.size)
	}
	want := s.State().NextFile
	must(t, s.Close())
	s, state, err := Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	if state.NextFile != want {
		t.Errorf("the next file is %d, want %d", state.NextFile, want)
	}
	must(t, s.Close())
}

// A power cut leaves part of an edit, and the next append needs a new file.
func TestDiskFull_LoadAfterAPowerCut(t *testing.T) {
	t.Parallel()
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	must(t, s.Append(Edit{LastSeq: Some(base.SeqNum(12))}))
	path, end := s.path(s.mu.file.number), s.mu.file.end
	cut := fs.Clone()
	must(t, s.Close())
	f, err := cut.OpenReadWrite(path, vfs.CatManifest)
	must(t, err)
	_, err = f.WriteAt([]byte("stale"), end)
	must(t, err)
	must(t, f.Close())
	cut.SetCapacity(cut.UsedBytes() + roomMin/4)
	s, state, err := Load(cut, testDir, false, testRandom(2), nil)
	must(t, err)
	if state.LastSeq != 12 {
		t.Errorf("opened at %d, want 12", state.LastSeq)
	}
	must(t, s.Append(Edit{LastSeq: Some(base.SeqNum(13))})) // as opening a database does
	must(t, s.Close())
}

func TestDiskFull_LeavesTheManifestUsable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	fs.SetCapacity(fs.UsedBytes())
	appends := 0
	for err == nil {
		err = s.Append(testEdit(rng, s.State()))
		appends++
	}
	if !errors.Is(err, vfs.ErrNoSpace) || appends < 10 {
		t.Fatalf("append %d: %v", appends, err)
	}
	want := s.State()
	must(t, s.Append(Edit{NextFile: Some(want.NextFile + 1)}))
	want = s.State()

	// The process dies between an edit and its mark; the disk stays full.
	e := Edit{NextFile: Some(want.NextFile + 1)}
	s.mu.file.b.Record(e.AppendTo(nil), s.mu.file.durable)
	must(t, s.mu.file.write())
	s, state, err := Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	if state.NextFile != want.NextFile+1 || !s.mu.renew {
		t.Fatalf("%+v, want %+v and one more file", state, want)
	}
	// The caller of Load may delete files by the state, whatever happens next.
	left := fs.Crash(memfs.KeepNone, nil)
	left.SetCapacity(1 << 30)
	again, after, err := Load(left, testDir, false, testRandom(2), nil)
	if err != nil || after.NextFile != state.NextFile {
		t.Fatalf("after a power cut: %+v, error %v, want %+v", after, err, state)
	}
	must(t, again.Close())
	if err := s.Append(Edit{LastSeq: Some(state.LastSeq + 1)}); !errors.Is(err, vfs.ErrNoSpace) {
		t.Fatalf("append behind an end that is not proven: %v", err)
	}
	must(t, s.Close())
	fs.SetCapacity(1 << 30)
	s, state, err = Load(fs, testDir, false, testRandom(3), nil)
	must(t, err)
	if state.NextFile != want.NextFile+1 || s.mu.renew {
		t.Fatalf("%+v, want %+v and one more file", state, want)
	}
	must(t, s.Append(Edit{LastSeq: Some(state.LastSeq + 1)}))
}

func TestVersion_LaterFormatIsNotCorruption(t *testing.T) {
	t.Parallel()
	fields := map[string][]byte{
		"tag":     appendField(nil, 99, 0),
		"feature": Edit{RequiredFeatures: []string{"of-tomorrow"}}.AppendTo(nil),
		"version": append(appendField(nil, tagFormatVersion, 4), 2, 0, 0, 0),
	}
	for name, p := range fields {
		_, err := DecodeEdit(p)
		if !errors.Is(err, base.ErrVersion) || errors.Is(err, base.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		fs := newTestDisk(t)
		s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
		must(t, err)
		must(t, s.appendLocked(p, s.State()))
		if _, _, err := Load(fs, testDir, false, testRandom(2), nil); !errors.Is(err, base.ErrVersion) {
			t.Errorf("%s in a manifest: %v", name, err)
		}
	}
}
