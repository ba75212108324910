package tree

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/filter"
	"github.com/stoatdb/stoat/internal/readset"
)

// filteredTree has a run of level 0 in two tables, b and f, above a last level of a
// to g. The files of the run are missing: a read of them fails.
func filteredTree(t *testing.T) *testTree {
	x := newTestTree(t)
	x.add(t, 0, 1, []base.Entry{setAt("b", 20)})
	x.add(t, 0, 1, []base.Entry{setAt("f", 20)})
	for n := range x.next {
		must(t, x.fs.Remove(x.fs.Join(x.dir, base.TableName(n+1))))
	}
	var below []base.Entry
	for key := byte('a'); key <= 'g'; key++ {
		below = append(below, setAt(string(key), 1))
	}
	x.add(t, 6, 0, below)
	return x
}

func TestFilters_GetSkipsRuns(t *testing.T) {
	t.Parallel()
	x := filteredTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	for key := byte('a'); key <= 'g'; key++ {
		k := []byte{key}
		_, _, seq, ok, err := v.Get(k, base.Hash(k, testSeed), base.SeqNumMax, nil)
		inRun := key == 'b' || key == 'f'
		if inRun != isCorrupt(err) || !inRun && (!ok || seq != 1) {
			t.Errorf("%c: found %t at %d, %v", key, ok, seq, err)
		}
	}
	must(t, files.Close())
}

func TestFilters_ConflictsSkipRuns(t *testing.T) {
	t.Parallel()
	x := newTestTree(t)
	x.add(t, 0, 1, []base.Entry{setAt("b", 20), setAt("f", 20)})
	files := New(x.options())
	v := files.View(&x.version, nil)
	conflict := func(key string) bool {
		var reads readset.Set
		reads.AddKey([]byte(key), base.Hash([]byte(key), testSeed))
		got, err := v.Conflicts(&reads, 10)
		must(t, err)
		return got
	}
	if !conflict("b") || !conflict("f") || conflict("c") {
		t.Error("b and f are newer, and c is not there")
	}
	m := x.version.Levels[0][0]
	m.Filter = nil
	if !conflict("b") || conflict("c") {
		t.Error("without a filter b is still newer, and c not there")
	}
	m.Filter = filter.NewBuilder(1).Filter()
	if conflict("b") {
		t.Error("b was looked for, although the filter does not hold it")
	}
	must(t, files.Close())
}

// A filter of keys says nothing about ranges.
func TestFilters_RangeTombstoneHidesKeysNotInItsRun(t *testing.T) {
	t.Parallel()
	x := newTestTree(t)
	x.addDeletion(t, 0, 1, "b", "d", 30, setAt("z", 30))
	x.add(t, 6, 0, []base.Entry{setAt("b", 1), setAt("c", 1), setAt("d", 1)})
	files := New(x.options())
	v := files.View(&x.version, nil)
	for key, want := range map[string]bool{"b": false, "c": false, "d": true, "z": true} {
		_, _, _, ok, err := v.Get([]byte(key), base.Hash([]byte(key), testSeed), base.SeqNumMax, nil)
		must(t, err)
		if ok != want {
			t.Errorf("%s: found %t", key, ok)
		}
	}
	must(t, files.Close())
}

func TestFilters_CountAsMemory(t *testing.T) {
	t.Parallel()
	x := filteredTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	if got, want := v.FilterBytes(), x.version.Levels[0][0].Filter.Bytes(); got != want || want == 0 {
		t.Errorf("the filter of one run takes %d bytes, its view says %d", want, got)
	}
	must(t, files.Close())
}
