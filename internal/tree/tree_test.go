package tree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"weak"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	testDir  = "/db"
	testSeed = 7
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A testTree makes versions of tables with known contents.
type testTree struct {
	fs      vfs.FS
	dir     string
	seed    uint64 // of the database
	next    base.FileNum
	version manifest.Version
	entries []base.Entry // of all tables
	hashes  []uint64     // of the last run of level 0
}

func newTestTree(t testing.TB) *testTree {
	fs := memfs.New()
	must(t, fs.MkdirAll(testDir))
	return &testTree{fs: fs, dir: testDir, seed: testSeed}
}

func (x *testTree) options() Options { return Options{FS: x.fs, Dir: x.dir, HashSeed: x.seed} }

// add makes a table of sorted entries and appends it to its level.
func (x *testTree) add(t testing.TB, level int, run uint64, entries []base.Entry) {
	t.Helper()
	x.next++
	file, err := x.fs.Create(x.fs.Join(x.dir, base.TableName(x.next)), vfs.CatTable)
	must(t, err)
	w, err := table.NewWriter(file, table.WriterOptions{Salt: uint64(x.next) * 77, HashSeed: testSeed, SparseIndex: level == 0})
	must(t, err)
	for i, e := range entries {
		if e.Meta.Kind == base.KindPointer {
			must(t, w.AddPointer(e, table.ValueFileRef{File: uint64(1 + i%3), Bytes: 8}))
		} else {
			must(t, w.Add(e))
		}
	}
	p, err := w.Finish()
	must(t, err)
	must(t, file.Close())
	x.put(&manifest.Table{
		Num: x.next, Size: p.Size, Salt: p.Salt, Level: level, Run: run,
		Smallest: p.Smallest, Largest: p.Largest, SmallestSeq: p.SmallestSeq, LargestSeq: p.LargestSeq,
		Entries: p.Entries,
	}, w.Hashes())
	x.entries = append(x.entries, entries...)
}

// put appends a table to its level. All tables of a run of level 0 get a filter of
// all its keys. hashes are those of the keys in m.
func (x *testTree) put(m *manifest.Table, hashes []uint64) {
	tables := append(x.version.Levels[m.Level], m)
	x.version.Levels[m.Level] = tables
	if m.Level > 0 {
		return
	}
	first := slices.IndexFunc(tables, func(t *manifest.Table) bool { return t.Run == m.Run })
	if tables[first] == m {
		x.hashes = nil
	}
	x.hashes = append(x.hashes, hashes...)
	b := filter.NewBuilder(uint64(len(x.hashes)))
	b.Add(x.hashes)
	for _, t := range tables[first:] {
		t.Filter = b.Filter()
	}
}

func testKey(i int) []byte { return fmt.Appendf(nil, "key-%08d", i) }

// randomTree makes two runs of level 0 above two levels, each of a few tables, with
// keys below space.
func randomTree(t testing.TB, rng *rand.Rand, space int) *testTree {
	x := newTestTree(t)
	seq := base.SeqNum(1_000_000)
	for _, at := range []struct {
		level  int
		run    uint64
		tables int
	}{{0, 9, 3}, {0, 4, 1}, {3, 0, 4}, {6, 0, 7}} {
		seq -= 10_000
		from := 0
		for i := range at.tables {
			to := space * (i + 1) / at.tables
			var entries []base.Entry
			for k := from; k < to; k++ {
				for n := rng.IntN(4); n > 1; n-- {
					entries = append(entries, base.Entry{Key: testKey(k), Value: fmt.Appendf(nil, "%d@%d", k, seq+base.SeqNum(n)),
						Seq: seq + base.SeqNum(n), Meta: base.Meta{Kind: base.KindSet}})
				}
			}
			if len(entries) > 0 {
				x.add(t, at.level, at.run, entries)
			}
			from = to + rng.IntN(3) // a gap between tables
		}
	}
	slices.SortFunc(x.entries, func(a, b base.Entry) int {
		if c := bytes.Compare(a.Key, b.Key); c != 0 {
			return c
		}
		return int(b.Seq) - int(a.Seq)
	})
	return x
}

// bothGets are the ways to look a key up.
var bothGets = []func(t *testing.T, v *View, key []byte, at base.SeqNum) ([]byte, base.SeqNum, bool){
	func(t *testing.T, v *View, key []byte, at base.SeqNum) ([]byte, base.SeqNum, bool) {
		t.Helper()
		value, _, seq, ok, err := v.Get(key, base.Hash(key, testSeed), at, nil)
		must(t, err)
		return value, seq, ok
	},
	func(t *testing.T, v *View, key []byte, at base.SeqNum) ([]byte, base.SeqNum, bool) {
		t.Helper()
		var a table.Ahead
		other := append(key[:len(key):len(key)], '!')
		_, first := v.Prepare(&a, other, base.Hash(other, testSeed), at)
		p, second := v.Prepare(&a, key, base.Hash(key, testSeed), at)
		if !first || !second {
			t.Fatal("Prepare reports an error")
		}
		a.Load()
		value, _, seq, ok, err := v.GetPrepared(&a, p, key, at, nil)
		must(t, err)
		return value, seq, ok
	},
}

func TestGet_FindsTheNewestVisibleVersion(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		space := 1 + rng.IntN(60)
		x := randomTree(t, rng, space)
		files := New(x.options())
		v := files.View(&x.version, nil)
		for range 500 {
			key, at := testKey(rng.IntN(space+2)), base.SeqNum(960_000+rng.IntN(40_010))
			var want base.Entry
			for _, e := range x.entries {
				if bytes.Equal(e.Key, key) && e.Seq <= at {
					want = e
					break
				}
			}
			for _, get := range bothGets {
				value, seq, ok := get(t, v, key, at)
				if ok != (want.Seq != 0) || seq != want.Seq && ok || !bytes.Equal(value, want.Value) {
					t.Fatalf("%s at %d: got %q#%d %t, want %q#%d", key, at, value, seq, ok, want.Value, want.Seq)
				}
			}
		}
		must(t, files.Close())
	}
}

func TestIter_LevelIsLikeOneTable(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		space := 1 + rng.IntN(200)
		x := randomTree(t, rng, space)
		files := New(x.options())
		v := files.View(&x.version, nil)
		for _, reverse := range []bool{false, true} {
			var levels Levels
			levels.Init(v, 0, table.IterOptions{Reverse: reverse})
			inputs := make([]iter.Input, levels.Len())
			for n := range 20 {
				together := n%2 == 0
				for i := range inputs {
					inputs[i] = iter.Input{Source: levels.Source(i), Grouped: together}
				}
				var all iter.Visible
				all.Init(inputs, reverse, nil, nil, iter.Snapshot{At: base.SeqNumMax, AllVersions: true})
				if together {
					all.Together(&levels)
				}
				key := testKey(rng.IntN(space + 2))
				want := slices.Clone(x.entries)
				want = slices.DeleteFunc(want, func(e base.Entry) bool { return (bytes.Compare(e.Key, key) < 0) != reverse })
				if reverse {
					slices.Reverse(want)
				}
				i := 0
				for ok := all.Seek(key); ok; ok = all.Next() {
					if i >= len(want) || !bytes.Equal(all.Entry.Key, want[i].Key) || all.Entry.Seq != want[i].Seq || !bytes.Equal(all.Entry.Value, want[i].Value) {
						t.Fatalf("reverse %t from %s, entry %d: got %s#%d", reverse, key, i, all.Entry.Key, all.Entry.Seq)
					}
					i++
				}
				must(t, all.Err())
				if i != len(want) {
					t.Fatalf("reverse %t from %s: %d entries, want %d", reverse, key, i, len(want))
				}
			}
		}
		must(t, files.Close())
	}
}

func TestView_UnchangedLevelsKeepTheirReaders(t *testing.T) {
	t.Parallel()
	x := randomTree(t, rand.New(rand.NewPCG(7, 8)), 50)
	files := New(x.options())
	old := files.View(&x.version, nil)
	key := x.entries[0].Key
	_, _, _, ok, err := old.Get(key, base.Hash(key, testSeed), base.SeqNumMax, nil)
	must(t, err)
	if !ok {
		t.Fatal("the first key is not there")
	}
	next := x.version
	moved := *next.Levels[3][0]
	moved.Level = 4
	next.Levels[3] = next.Levels[3][1:]
	next.Levels[4] = []*manifest.Table{&moved}
	v := files.View(&next, old)
	if &v.levels[0].tables[0] != &old.levels[0].tables[0] {
		t.Error("a level that did not change was made anew")
	}
	var handles []*tableHandle
	for _, l := range v.levels {
		for _, table := range l.tables {
			if table.Num == moved.Num {
				handles = append(handles, table.tableHandle)
			}
		}
	}
	if len(handles) != 1 || handles[0] != files.tables[moved.Num] {
		t.Error("a table that moved lost its reader")
	}
	must(t, files.Close())
}

func TestOpen_MissingOrWrongFileIsCorruption(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(x *testTree){
		"missing":         func(x *testTree) { must(t, x.fs.Remove(x.fs.Join(x.dir, base.TableName(1)))) },
		"shorter":         func(x *testTree) { x.version.Levels[6][0].Size++ },
		"another":         func(x *testTree) { x.version.Levels[6][0].Salt++ },
		"of another hash": func(x *testTree) { x.seed++ },
	} {
		x := newTestTree(t)
		x.add(t, 6, 0, []base.Entry{{Key: testKey(1), Seq: 1, Meta: base.Meta{Kind: base.KindSet}}})
		damage(x)
		files := New(x.options())
		v := files.View(&x.version, nil)
		if _, _, _, _, err := v.Get(testKey(1), base.Hash(testKey(1), testSeed), 1, nil); !isCorrupt(err) {
			t.Errorf("%s: %v", name, err)
		}
		var it Iter
		var b iter.Batch
		b.Want = 1
		it.Init(v, 0, table.IterOptions{})
		it.Seek(nil)
		if err := it.Fill(&b); !isCorrupt(err) {
			t.Errorf("%s, iterator: %v", name, err)
		}
		must(t, files.Close())
	}
}

// Iterators are reused, by databases that may drop their tables.
func TestIter_CloseReleasesTheTables(t *testing.T) {
	t.Parallel()
	x := randomTree(t, rand.New(rand.NewPCG(3, 4)), 200)
	files := New(x.options())
	v := files.View(&x.version, nil)
	var it Iter
	it.Init(v, 0, table.IterOptions{})
	it.Seek(nil)
	b := iter.Batch{Want: 1}
	if err := it.Fill(&b); err != nil || b.N == 0 {
		t.Fatalf("%d entries, %v", b.N, err)
	}
	reader := weak.Make(v.levels[0].tables[it.at].tableHandle.reader.Load())
	it.Close()
	must(t, files.Close())
	runtime.GC()
	if reader.Value() != nil {
		t.Error("the reader of a table is still there")
	}
	runtime.KeepAlive(&it)
}
