package manifest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// bound returns s as a key bound; "-" means no bound.
func bound(s string) []byte {
	if s == "-" {
		return nil
	}
	return []byte(s)
}

func TestOverlapping_FindsTheTablesOfARange(t *testing.T) {
	t.Parallel()
	ends := tableAt(3, 2, "p", "r")
	ends.LargestExclusive = true
	v := &Version{}
	v.Levels[2] = []*Table{tableAt(1, 2, "b", "d"), tableAt(2, 2, "f", "h"), ends, tableAt(4, 2, "r", "t")}
	for _, c := range []struct {
		lo, hi    string
		exclusive bool
		want      []base.FileNum
	}{
		{"-", "-", false, []base.FileNum{1, 2, 3, 4}},
		{"-", "a", false, nil},
		{"-", "b", true, nil},
		{"-", "b", false, []base.FileNum{1}},
		{"d", "f", true, []base.FileNum{1}},
		{"d", "f", false, []base.FileNum{1, 2}},
		{"e", "e", false, nil},
		{"g", "g", false, []base.FileNum{2}},
		{"g", "g", true, nil},
		{"g", "c", false, nil},
		{"q", "-", false, []base.FileNum{3, 4}},
		{"r", "-", false, []base.FileNum{4}},
		{"r", "r", false, []base.FileNum{4}},
		{"u", "-", false, nil},
		{"", "zz", false, []base.FileNum{1, 2, 3, 4}},
		{"-", "", false, nil},
	} {
		var got []base.FileNum
		for _, t := range v.Overlapping(2, bound(c.lo), bound(c.hi), c.exclusive) {
			got = append(got, t.Num)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %s to %s, exclusive %v: %d, want %d", c.lo, c.hi, c.exclusive, got, c.want)
		}
	}
	part := v.Overlapping(2, bound("c"), bound("g"), false)
	if &part[0] != &v.Levels[2][0] || cap(part) != 2 {
		t.Fatal("the result is not a part of the level that cannot grow into the rest of it")
	}
}

// Not parallel, because allocations are counted for the whole process.
func TestOverlapping_DoesNotAllocateBelowLevelZero(t *testing.T) {
	v := smallTree(t).Version
	lo, hi := []byte("c"), []byte("g")
	if n := testing.AllocsPerRun(10, func() { v.Overlapping(3, lo, hi, true) }); n > 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestOverlapping_MatchesAFullScan(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		v := treeState(rng, 60).Version
		g := generator{rng: rng}
		for range 50 {
			keys := g.keys(2)
			window := &Table{Smallest: keys[0], Largest: keys[1], LargestExclusive: rng.IntN(2) == 0}
			for level, tables := range v.Levels {
				var want []*Table
				for _, u := range tables {
					if u.Overlaps(window) {
						want = append(want, u)
					}
				}
				got := v.Overlapping(level, window.Smallest, window.Largest, window.LargestExclusive)
				if !slices.Equal(got, want) {
					t.Fatalf("level %d from %s to %s: %d tables, want %d", level, keys[0], keys[1], len(got), len(want))
				}
			}
		}
	}
}

func TestRuns_NewestFirst(t *testing.T) {
	t.Parallel()
	v := new(Version)
	if v.Runs() != 0 || v.NextRun() != 1 || v.TableCount() != 0 || v.Bytes(0) != 0 {
		t.Fatal("an empty version has something")
	}
	v = smallTree(t).Version
	if v.Runs() != 2 || v.NextRun() != 8 || v.TableCount() != 5 {
		t.Fatalf("%d runs, next %d, %d tables; want 2, 8, 5", v.Runs(), v.NextRun(), v.TableCount())
	}
	newest, oldest := v.Run(0), v.Run(1)
	if len(newest) != 2 || newest[0].Num != 1 || newest[1].Num != 2 || len(oldest) != 1 || oldest[0].Num != 3 {
		t.Fatalf("runs %+v and %+v", newest, oldest)
	}
	if cap(newest) != 2 {
		t.Fatal("a run can grow into the next one")
	}
}

func TestBytes_SumOfTheTablesOfALevel(t *testing.T) {
	t.Parallel()
	v := &Version{}
	v.Levels[1] = []*Table{{Size: 3}, {Size: 4}}
	if v.Bytes(1) != 7 || v.Bytes(2) != 0 {
		t.Fatalf("%d and %d bytes, want 7 and 0", v.Bytes(1), v.Bytes(2))
	}
}

func TestValue_FoundByNumber(t *testing.T) {
	t.Parallel()
	v := smallTree(t).Version
	if f, ok := v.Value(10); !ok || f.Num != 10 || f.File != 12 || f.Live != 5 {
		t.Fatalf("%+v, %v", f, ok)
	}
	for _, num := range []base.FileNum{0, 9, 12, 99} {
		if f, ok := v.Value(num); ok {
			t.Fatalf("%d: %+v", num, f)
		}
	}
}

func TestEndOfKeys_TakesNoBytesInAnEdit(t *testing.T) {
	t.Parallel()
	table := tableAt(1, 0, "k", "")
	table.Largest, table.LargestExclusive = bytes.Clone(base.EndOfKeys), true
	b := appendTable(nil, table)
	if want := tableFixedSize + len("k"); len(b) != want {
		t.Errorf("encoded in %d bytes, want %d", len(b), want)
	}
	got, err := decodeTable(b, 0)
	must(t, err)
	if &got.Largest[0] != &base.EndOfKeys[0] || !got.LargestExclusive {
		t.Errorf("the largest bound comes back with %d bytes, exclusive %v", len(got.Largest), got.LargestExclusive)
	}
	if last := bytes.Repeat([]byte{0xff}, base.MaxKeySize); !got.Contains(last) {
		t.Error("the last key does not lie in the table")
	}
}

func TestLoad_TableOfTheLongestKeys(t *testing.T) {
	t.Parallel()
	key := func(c byte) []byte { return bytes.Repeat([]byte{c}, base.MaxKeySize) }
	fs := newTestDisk(t)
	s, err := Create(fs, testDir, firstState(), testRandom(1), nil)
	must(t, err)
	must(t, s.Append(Edit{NextFile: Some(uint64(100)), AddTables: []*Table{
		{Num: 1, Level: 6, Smallest: key('a'), Largest: key('b')},
		{Num: 2, Level: 6, Smallest: key('c'), Largest: key('d')},
	}}))
	want := s.State()
	must(t, s.Close())
	_, got, err := Load(fs, testDir, false, testRandom(2), nil)
	must(t, err)
	if !same(got, want) {
		t.Fatal("another state was loaded")
	}
}
