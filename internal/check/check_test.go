package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A scene is a version with its files on a disk in memory.
type scene struct {
	t     *testing.T
	fs    *memfs.FS
	state manifest.State
	// open counts the open value files; most is its maximum, and opens counts how often one was
	// opened. tables counts the open tables.
	open, most, opens, tables int
}

// A countedFile is a file of a scene, which is open.
type countedFile struct {
	vfs.File
	open *int
}

func (f countedFile) Close() error {
	*f.open--
	return f.File.Close()
}

func newScene(t *testing.T) *scene {
	return &scene{t: t, fs: memfs.NewVolatile(), state: manifest.State{FlushedSeq: 1000, Version: new(manifest.Version)}}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// An item is an entry, with a pointer if its value is in a value file.
type item struct {
	key  string
	seq  base.SeqNum
	at   *values.Pointer
	meta base.Meta // a value, if it is zero
}

// addTable writes a table and adds it to a level.
func (s *scene) addTable(num base.FileNum, level int, run uint64, items ...item) *manifest.Table {
	s.t.Helper()
	f, err := s.fs.Create(base.TableName(num), vfs.CatTable)
	s.must(err)
	w, err := table.NewWriter(f, table.WriterOptions{Salt: uint64(num)})
	s.must(err)
	for _, it := range items {
		e := base.Entry{Key: []byte(it.key), Seq: it.seq, Value: []byte("value"), Meta: base.Meta{Kind: base.KindSet}}
		if it.meta.Kind != 0 {
			e.Meta = it.meta
		}
		if !e.Meta.Kind.HasValue() || e.Meta.Kind == base.KindStampDelete {
			e.Value = nil
		}
		if it.at == nil {
			s.must(w.Add(e))
			continue
		}
		e.Value, e.Meta.Kind = it.at.AppendTo(nil), base.KindPointer
		s.must(w.AddPointer(e, table.ValueFileRef{File: uint64(it.at.File), Bytes: values.RefBytes(*it.at)}))
	}
	p, err := w.Finish()
	s.must(err)
	s.must(f.Close())
	m := &manifest.Table{Num: num, Size: p.Size, Salt: p.Salt, Level: level, Run: run,
		Smallest: p.Smallest, Largest: p.Largest, SmallestSeq: p.SmallestSeq, LargestSeq: p.LargestSeq,
		Entries: p.Entries, Deletions: p.Deletions, Expiring: p.Expiring, OldestExpiry: p.OldestExpiry, NewestExpiry: p.NewestExpiry,
		Pointers: p.Pointers, KeyBytes: p.KeyBytes, ValueBytes: p.ValueBytes}
	var refs []manifest.ValueRef
	for _, v := range p.ValueFiles {
		refs = append(refs, manifest.ValueRef{File: base.FileNum(v.File), Bytes: v.Bytes})
	}
	m.Values = manifest.ValueRefsOf(refs...)
	s.state.Version.Levels[level] = append(s.state.Version.Levels[level], m)
	return m
}

// addValues writes a value file, and returns pointers to the values of its items.
func (s *scene) addValues(num base.FileNum, items ...item) (at []values.Pointer) {
	s.t.Helper()
	f, err := s.fs.Create(base.ValueName(num), vfs.CatValue)
	s.must(err)
	w, err := values.NewWriter(f, values.WriterOptions{Num: num, Salt: uint64(num)})
	s.must(err)
	live := uint64(0)
	for _, it := range items {
		p, err := w.Append([]byte(it.key), it.seq, []byte(strings.Repeat(it.key, 100)))
		s.must(err)
		live += values.RefBytes(p)
		at = append(at, p)
	}
	p, err := w.Finish()
	s.must(err)
	s.must(f.Close())
	s.state.Version.Values = append(s.state.Version.Values, manifest.LiveValues{Live: live, ValueFile: &manifest.ValueFile{
		Num: num, File: num, Size: p.Size, Salt: p.Salt, Values: p.Values, Bytes: p.Bytes, FirstSeq: p.FirstSeq, LastSeq: p.LastSeq}})
	return at
}

// check runs a check of the scene.
func (s *scene) check() *Report {
	s.t.Helper()
	r, err := Run(s.options())
	s.must(err)
	for _, p := range r.Problems {
		if !errors.Is(p, base.ErrCorrupt) {
			s.t.Errorf("%v is not ErrCorrupt", p)
		}
	}
	return r
}

// options returns the options of a check of the scene.
func (s *scene) options() Options {
	return Options{
		State: s.state,
		OpenTable: func(t *manifest.Table) (*table.Reader, error) {
			f, err := s.fs.Open(base.TableName(t.Num), vfs.CatTable)
			if err != nil {
				return nil, err
			}
			s.tables++
			return table.Open(countedFile{f, &s.tables}, t.Size, base.TableName(t.Num), table.ReaderOptions{})
		},
		OpenValues: func(v *manifest.ValueFile) (*values.Reader, error) {
			f, err := s.fs.Open(base.ValueName(v.File), vfs.CatValue)
			if err != nil {
				return nil, err
			}
			s.open++
			s.opens++
			s.most = max(s.most, s.open)
			return values.Open(countedFile{f, &s.open}, v.Size, v.Num, v.Salt, base.ValueName(v.File))
		},
	}
}

// want demands one problem that contains a text, after a change of a sound scene.
func want(t *testing.T, text string, change func(s *scene, tables []*manifest.Table, at []values.Pointer)) {
	t.Helper()
	s := newScene(t)
	a, b := item{key: "a", seq: 30}, item{key: "b", seq: 20}
	at := s.addValues(9, a, b)
	a.at, b.at = &at[0], &at[1]
	tables := []*manifest.Table{
		s.addTable(1, 0, 2, item{key: "a", seq: 60}, item{key: "c", seq: 50}),
		s.addTable(2, 0, 1, item{key: "c", seq: 40}),
		s.addTable(3, 5, 0, a, b),
		s.addTable(4, 5, 0, item{key: "c", seq: 10}),
	}
	if r := s.check(); r.Err() != nil || r.Tables != 4 || r.Values != 1 || r.Pointers != 2 || r.Entries != 6 {
		t.Fatalf("before the change: %+v", r)
	}
	change(s, tables, at)
	r := s.check()
	if len(r.Problems) != 1 || !strings.Contains(fmt.Sprint(r.Problems), text) {
		t.Errorf("want %q, got %d problems: %v", text, len(r.Problems), r.Err())
	}
}

func TestCheck_ComparesFilesWithTheManifest(t *testing.T) {
	t.Parallel()
	want(t, "000001.table: count of entries: got 2, want 3, as the manifest says", func(_ *scene, tables []*manifest.Table, _ []values.Pointer) {
		tables[0].Entries++
	})
	want(t, "000002.table: largest sequence number: got 40", func(s *scene, _ []*manifest.Table, _ []values.Pointer) {
		s.state.Version.Levels[0][1].LargestSeq++
	})
	want(t, "000001.table: smallest key", func(_ *scene, tables []*manifest.Table, _ []values.Pointer) {
		tables[0].Smallest = []byte("A")
	})
	want(t, `000001.table: largest key: got "c", want the end of all keys`, func(_ *scene, tables []*manifest.Table, _ []values.Pointer) {
		tables[0].Largest, tables[0].LargestExclusive = base.EndOfKeys, true
	})
	want(t, "000009.values: count of values: got 2, want 3", func(s *scene, _ []*manifest.Table, _ []values.Pointer) {
		s.state.Version.Values[0].Values++
	})
	want(t, "000001.table: largest sequence number: got 60, want 59 at most", func(s *scene, _ []*manifest.Table, _ []values.Pointer) {
		s.state.FlushedSeq = 59
	})
}

func TestCheck_SumsReferencesOfTables(t *testing.T) {
	t.Parallel()
	want(t, "000009.values: bytes that tables refer to", func(s *scene, _ []*manifest.Table, _ []values.Pointer) {
		s.state.Version.Values[0].Live -= 8
	})
	want(t, "000003.table: references to value files", func(_ *scene, tables []*manifest.Table, _ []values.Pointer) {
		tables[2].Values = manifest.ValueRefsOf(manifest.ValueRef{File: 9, Bytes: 1})
	})
}

func TestCheck_FindsWrongPointers(t *testing.T) {
	t.Parallel()
	want(t, `000005.table: version 7 of key "a"`, func(s *scene, tables []*manifest.Table, at []values.Pointer) {
		other := s.addTable(5, 6, 0, item{key: "a", seq: 7, at: &at[0]}, item{key: "b", seq: 20, at: &at[1]})
		other.Level = 5
		l := &s.state.Version.Levels
		l[5], l[6] = []*manifest.Table{other, tables[3]}, nil
	})
	want(t, "value file of a pointer: got 8, want a live one", func(s *scene, _ []*manifest.Table, at []values.Pointer) {
		gone := at[0]
		gone.File = 8
		s.addTable(5, 6, 0, item{key: "x", seq: 7, at: &gone})
	})
}

func TestCheck_FindsOverlapsAndLevelsOutOfOrder(t *testing.T) {
	t.Parallel()
	want(t, "000005.table: order of level 5", func(s *scene, _ []*manifest.Table, _ []values.Pointer) {
		s.addTable(5, 5, 0, item{key: "c", seq: 3})
	})
	want(t, `000005.table: age of key "c": got version 45, want one before 10`, func(s *scene, _ []*manifest.Table, _ []values.Pointer) {
		s.addTable(5, 6, 0, item{key: "b", seq: 1}, item{key: "c", seq: 45})
	})
	want(t, `000002.table: age of key "c": got version 40, want one before 10`, func(s *scene, tables []*manifest.Table, _ []values.Pointer) {
		l := &s.state.Version.Levels
		l[0], l[4] = tables[:1], []*manifest.Table{tables[3]}
		l[5] = []*manifest.Table{tables[2], tables[1]}
	})
}

func TestCheck_Stop(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.addTable(1, 0, 1, item{key: "a", seq: 1})
	why := errors.New("why")
	if _, err := Run(Options{State: s.state, Stop: func() error { return why }}); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
}

// alternating returns a scene of a table with two keys for each of that many value files.
// Neighbouring keys have their values in different files.
func alternating(t *testing.T, files int) *scene {
	t.Helper()
	s := newScene(t)
	var items []item
	for i := range files {
		a, b := item{key: fmt.Sprintf("a-%03d", i), seq: 20}, item{key: fmt.Sprintf("b-%03d", i), seq: 20}
		at := s.addValues(base.FileNum(1000+i), a, b)
		a.at, b.at = &at[0], &at[1]
		items = append(items, a, b)
	}
	slices.SortFunc(items, func(a, b item) int { return cmp.Compare(a.key, b.key) })
	s.addTable(1, manifest.Levels-1, 0, items...)
	return s
}

// A database may have more value files than a process may map.
func TestCheck_KeepsFewValueFilesOpen(t *testing.T) {
	t.Parallel()
	const files = 3 * openMax
	s := alternating(t, files)
	if r := s.check(); len(r.Problems) != 0 || r.Pointers != 2*files || r.Values != files {
		t.Errorf("%d problems with %d pointers into %d files, want none with %d into %d: %v",
			len(r.Problems), r.Pointers, r.Values, 2*files, files, r.Err())
	}
	if s.most > openMax || s.open != 0 {
		t.Errorf("%d value files were open at once, want %d at most; %d are in the end", s.most, openMax, s.open)
	}
}

// A file that is opened again for each value makes the check of a large database take days.
func TestCheck_OpensAValueFileOnceForManyPointersOfATable(t *testing.T) {
	t.Parallel()
	const files = 3 * openMax
	s := alternating(t, files)
	if r := s.check(); r.Err() != nil || r.Jumps != 2*files-1 {
		t.Errorf("%d jumps between files, want one for each pair of keys: %v", r.Jumps, r.Err())
	}
	if s.opens > 2*files {
		t.Errorf("value files were opened %d times, want once for itself and once for the table, %d", s.opens, 2*files)
	}
}

func TestCheck_EndsATableWithManyBrokenPointers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	var items []item
	for i := range 3 * problemsMax {
		items = append(items, item{key: fmt.Sprintf("%03d", i), seq: 20})
	}
	at := s.addValues(9, items...)
	for i := range items {
		items[i].at, items[i].seq = &at[i], 30
	}
	s.addTable(1, 5, 0, items...)
	if r := s.check(); len(r.Problems) != problemsMax || !strings.Contains(fmt.Sprint(r.Problems[0]), `version 30 of key "000"`) {
		t.Errorf("got %d problems, want %d: %.300v", len(r.Problems), problemsMax, r.Problems)
	}
}

// Stop stands for all that may panic while a file is open, such as a look at a lost page.
func TestRun_ThatAPanicEndsClosesItsFiles(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	a := item{key: "a", seq: 30}
	a.at = &s.addValues(9, a)[0]
	s.addTable(3, 5, 0, a)
	seen := false
	for at, ended := 1, false; !ended; at++ {
		calls, inTable := 0, false
		o := s.options()
		o.Stop = func() error {
			if calls++; calls == at {
				inTable = s.tables > 0
				panic("on purpose")
			}
			return nil
		}
		func() {
			defer func() { ended = recover() == nil }()
			_, err := Run(o)
			s.must(err)
		}()
		if s.open != 0 || s.tables != 0 {
			t.Fatalf("a panic in call %d, in a table %t: %d value files and %d tables stay open", at, inTable, s.open, s.tables)
		}
		seen = seen || inTable
	}
	if !seen {
		t.Error("no panic came while a table was open")
	}
}
