package tree

import (
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/table"
)

// scannedTree has two tables of a thousand entries each.
func scannedTree(t *testing.T) *testTree {
	x := newTestTree(t)
	for from := 0; from < 2000; from += 1000 {
		var entries []base.Entry
		for k := from; k < from+1000; k++ {
			entries = append(entries, base.Entry{Key: testKey(k), Value: []byte("value"), Seq: 1, Meta: base.Meta{Kind: base.KindSet}})
		}
		x.add(t, 6, 0, entries)
	}
	return x
}

func TestScanned_CountsWhatIteratorsRead(t *testing.T) {
	t.Parallel()
	const all = 1000
	for _, c := range []struct {
		name   string
		opts   table.IterOptions
		from   string // that each pass seeks to
		length int    // of a pass
		passes int
		want   [2]bool
	}{
		{"fewer passes than it takes", table.IterOptions{}, "", all, scanPasses - 1, [2]bool{}},
		{"whole passes", table.IterOptions{}, "", all, scanPasses, [2]bool{true, false}},
		{"more passes than it takes", table.IterOptions{}, "", all, 2 * scanPasses, [2]bool{true, false}},
		{"passes over both", table.IterOptions{}, "", 2 * all, scanPasses, [2]bool{true, true}},
		{"passes backwards", table.IterOptions{Reverse: true}, "key-00001000", all, scanPasses, [2]bool{true, false}},
		{"short ranges", table.IterOptions{}, "key-00000500", 10, scanPasses * all / 10, [2]bool{true, false}},
		{"keys alone", table.IterOptions{KeysOnly: true}, "", 2 * all, 2 * scanPasses, [2]bool{}},
		{"jobs", table.IterOptions{Unmapped: true}, "", 2 * all, 2 * scanPasses, [2]bool{}},
	} {
		x := scannedTree(t)
		o, calls := x.options(), 0
		o.Scanned = func() { calls++ }
		files := New(o)
		v := files.View(&x.version, nil)
		var it Iter
		for range c.passes {
			it.Init(v, 0, c.opts)
			it.Seek([]byte(c.from))
			for left := c.length; left > 0; {
				b := iter.Batch{Want: min(left, iter.BatchSize)}
				must(t, it.Fill(&b))
				if b.N == 0 {
					t.Fatalf("%s: a pass ends %d entries early", c.name, left)
				}
				left -= b.N
			}
			it.Close()
		}
		// An iterator tells a table what it counted after scanUnit entries, or at the next table.
		it.scanned.tell(files)
		for i, m := range x.version.Levels[6] {
			if got := files.Scanned(m); got != c.want[i] {
				t.Errorf("%s: table %d counts as scanned: %t, want %t", c.name, i, got, c.want[i])
			}
		}
		want := 0
		for _, scanned := range c.want {
			if scanned {
				want++
			}
		}
		if calls != want {
			t.Errorf("%s: Options.Scanned was called %d times, want %d", c.name, calls, want)
		}
		must(t, files.Close())
	}
}

func TestScanned_NewTablesInheritWhatIteratorsReadOfTheOldOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		passes [2]int // over the first table, and over the second
		want   bool
	}{
		{"read enough", [2]int{scanPasses, scanPasses}, true},
		{"one read enough", [2]int{scanPasses, scanPasses - 1}, false},
		{"one read for both", [2]int{2 * scanPasses, 0}, true},
		{"not read", [2]int{}, false},
	} {
		x := scannedTree(t)
		files := New(x.options())
		v := files.View(&x.version, nil)
		old := [][]*manifest.Table{nil, slices.Clone(x.version.Levels[6])}
		for i, passes := range c.passes {
			v.levels[0].tables[i].scan(uint64(1000 * passes))
		}
		// The new tables have all keys of the old ones, and then some of them once more.
		var merged []*manifest.Table
		for i, keys := range []uint64{1999, 1, 700} {
			key := testKey(i)
			merged = append(merged, &manifest.Table{Num: 100 + base.FileNum(i), Level: 6, Entries: keys, Smallest: key, Largest: key})
		}
		x.version.Levels[6] = merged
		files.View(&x.version, v)
		files.Inherit(merged, old)
		for _, m := range merged {
			if got := files.Scanned(m); got != c.want {
				t.Errorf("%s: a new table of %d entries counts as scanned: %t, want %t", c.name, m.Entries, got, c.want)
			}
		}
		must(t, files.Close())
	}
}

// What iterators read long ago is no reason for ever.
func TestScanned_NewTablesInheritNoMoreThanItTakes(t *testing.T) {
	t.Parallel()
	x := scannedTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	old := [][]*manifest.Table{slices.Clone(x.version.Levels[6])}
	v.levels[0].tables[0].scan(1 << 40)
	m := &manifest.Table{Num: 100, Level: 6, Entries: 2000, Smallest: []byte("a"), Largest: []byte("b")}
	x.version.Levels[6] = []*manifest.Table{m}
	files.View(&x.version, v)
	files.Inherit(x.version.Levels[6], old)
	if got := files.tables[m.Num].scanned.Load(); got != scanPasses*m.Entries {
		t.Errorf("a table of %d entries inherits %d, want %d", m.Entries, got, scanPasses*m.Entries)
	}
	must(t, files.Close())
}

// Most iterators read fewer than scanUnit entries. The next one goes on counting.
func TestScanned_ShortRangesOfManyIteratorsCount(t *testing.T) {
	t.Parallel()
	x := scannedTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	var it Iter
	b := iter.Batch{}
	for range scanPasses*1000/10 + scanUnit/10 + 1 {
		it.Init(v, 0, table.IterOptions{})
		it.Seek(testKey(500))
		b.Want = 10
		must(t, it.Fill(&b))
		it.Close()
	}
	if !files.Scanned(x.version.Levels[6][0]) {
		t.Error("a table does not count as scanned")
	}
	must(t, files.Close())
}
