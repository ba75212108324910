package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/dose"
)

// A naiveTree holds the tables and value files in maps. It checks everything
// after every edit.
type naiveTree struct {
	tables map[base.FileNum]*Table
	values map[base.FileNum]*ValueFile
}

func naive(v *Version) naiveTree {
	n := naiveTree{map[base.FileNum]*Table{}, map[base.FileNum]*ValueFile{}}
	for _, tables := range v.Levels {
		for _, t := range tables {
			n.tables[t.Num] = t
		}
	}
	for _, f := range v.Values {
		n.values[f.Num] = f.ValueFile
	}
	return n
}

var errNaive = errors.New("refused")

// apply applies e to n, or returns an error.
func (n naiveTree) apply(e Edit, nextFile uint64) error {
	for _, p := range e.DropTables {
		if t := n.tables[p.Num]; t == nil || t.Level != p.Level {
			return errNaive
		}
		delete(n.tables, p.Num)
	}
	for _, num := range e.DropValues {
		if n.values[num] == nil || n.live(num) > 0 {
			return errNaive
		}
		delete(n.values, num)
	}
	seen := map[base.FileNum]bool{}
	for _, f := range e.AddValues {
		if seen[f.Num] || uint64(f.Num) >= nextFile || uint64(f.File) >= nextFile {
			return errNaive
		}
		seen[f.Num] = true
		n.values[f.Num] = f
	}
	for _, t := range e.AddTables {
		if n.tables[t.Num] != nil || uint64(t.Num) >= nextFile {
			return errNaive
		}
		n.tables[t.Num] = t
	}
	return n.check()
}

func (n naiveTree) live(num base.FileNum) (bytes uint64) {
	for _, t := range n.tables {
		for r := range t.Values.All() {
			if r.File == num {
				bytes += r.Bytes
			}
		}
	}
	return bytes
}

func (n naiveTree) check() error {
	for _, t := range n.tables {
		c := bytes.Compare(t.Smallest, t.Largest)
		if t.Level < 0 || t.Level >= Levels || (t.Level > 0 && t.Run != 0) || c > 0 || (c == 0 && t.LargestExclusive) {
			return errNaive
		}
		if end := len(t.Largest) - base.MaxKeySize; end > 1 || end == 1 && !t.LargestExclusive {
			return errNaive
		}
		refs := slices.Collect(t.Values.All())
		for i, r := range refs {
			if n.values[r.File] == nil || r.Bytes == 0 || (i > 0 && refs[i-1].File >= r.File) {
				return errNaive
			}
		}
		for _, u := range n.tables {
			if t.Num != u.Num && t.Level == u.Level && t.Run == u.Run && t.Overlaps(u) {
				return errNaive
			}
		}
	}
	files := map[base.FileNum]bool{}
	for _, f := range n.values {
		files[f.File] = true
	}
	if len(files) != len(n.values) {
		return errNaive
	}
	return nil
}

// version returns n as a version, with recomputed sums.
func (n naiveTree) version() *Version {
	v := new(Version)
	for _, t := range n.tables {
		v.Levels[t.Level] = append(v.Levels[t.Level], t)
	}
	for _, tables := range v.Levels {
		slices.SortFunc(tables, func(a, b *Table) int {
			return cmp.Or(cmp.Compare(b.Run, a.Run), bytes.Compare(a.Smallest, b.Smallest))
		})
	}
	for num, f := range n.values {
		v.Values = append(v.Values, LiveValues{ValueFile: f, Live: n.live(num)})
		v.ValueFileBytes += f.Bytes
	}
	slices.SortFunc(v.Values, func(a, b LiveValues) int { return cmp.Compare(a.Num, b.Num) })
	return v
}

// spoil changes something in e, so that e usually cannot follow s.
func spoil(rng *rand.Rand, s State, e *Edit) {
	some := func() base.FileNum { return base.FileNum(rng.Uint64N(s.NextFile + 4)) }
	if len(e.AddTables) == 0 {
		e.DropTables = append(e.DropTables, Place{Level: rng.IntN(Levels), Num: some()})
		return
	}
	i := rng.IntN(len(e.AddTables))
	t := *e.AddTables[i]
	e.AddTables = slices.Clone(e.AddTables)
	e.AddTables[i] = &t
	switch rng.IntN(13) {
	case 0:
		t.Num = some()
	case 1:
		t.Level = rng.IntN(Levels+2) - 1
	case 2:
		t.Run = rng.Uint64N(4)
	case 3:
		t.Largest, t.LargestExclusive = append(slices.Clone(t.Largest), 'f'), rng.IntN(2) == 0
	case 4:
		t.Smallest = t.Smallest[:1]
	case 5:
		t.Smallest, t.Largest = t.Largest, t.Smallest
	case 6:
		t.Values = ValueRefsOf(append(slices.Collect(t.Values.All()), ValueRef{File: some(), Bytes: rng.Uint64N(2)})...)
	case 7:
		e.DropValues = append(e.DropValues, some())
	case 8:
		e.NextFile = Some(s.NextFile)
	case 9:
		e.AddTables = append(e.AddTables, &t)
	case 10:
		e.AddValues = append(e.AddValues, &ValueFile{Num: some(), File: some()})
	case 11:
		e.DropTables = append(e.DropTables, Place{Level: rng.IntN(2), Num: some()})
	case 12:
		e.DropTables = e.DropTables[:len(e.DropTables)/2]
	}
}

func TestApply_TreeMatchesTheModel(t *testing.T) {
	t.Parallel()
	seed, edits := dose.Seed(t), dose.Size(t, dose.Ops, 600, 10_000)
	var accepted, refused int
	for part := uint64(0); edits > 0; part++ {
		rng := rand.New(rand.NewPCG(seed, part))
		s, many := firstState(), newDraftOfMany()
		for range 200 {
			edits--
			var e Edit
			addTreeEdit(rng, s, &e)
			if rng.IntN(3) == 0 {
				spoil(rng, s, &e)
			}
			before := s.snapshot().AppendTo(nil)
			n := naive(s.Version)
			want := n.apply(e, max(s.NextFile, e.NextFile.Value))
			next, err := s.Apply(e)
			if (err == nil) != (want == nil) {
				t.Fatalf("%+v after %+v: %v, want %v", e, s.Version, err, want)
			}
			if after := s.snapshot().AppendTo(nil); !bytes.Equal(before, after) {
				t.Fatal("an edit changed the version that it was applied to")
			}
			must(t, s.Version.check())
			if err != nil {
				refused++
				snapshot, replayed := s.snapshot(), newDraftOfMany()
				must(t, replayed.apply(&snapshot, s.NextFile))
				if replayed.apply(&e, max(s.NextFile, e.NextFile.Value)) == nil {
					t.Fatalf("%+v after %+v is accepted as one of many", e, s.Version)
				}
				continue
			}
			accepted++
			decoded, err := DecodeEdit(e.AppendTo(nil))
			must(t, err)
			if again, err := s.Apply(decoded); err != nil || !same(again, next) {
				t.Fatalf("%+v makes %+v, decoded %+v: %v", e, next, again, err)
			}
			s = next
			must(t, many.apply(&e, s.NextFile))
			if !same(State{Version: s.Version}, State{Version: n.version()}) {
				t.Fatalf("%+v makes %+v, want %+v", e, s.Version, n.version())
			}
		}
		if once := many.version(); !same(State{Version: once}, State{Version: s.Version}) {
			t.Fatalf("one after another %+v, at once %+v", s.Version, once)
		}
		again, err := State{}.Apply(s.snapshot())
		must(t, err)
		if !same(again, s) {
			t.Fatalf("%+v, from its snapshot %+v", s, again)
		}
	}
	if accepted < 5*refused/4 || refused < accepted/20 {
		t.Fatalf("%d edits were accepted, %d refused: the test is to see both", accepted, refused)
	}
}
