package tree

import (
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/rangedel"
	"github.com/stoatdb/stoat/internal/readset"
	"github.com/stoatdb/stoat/internal/table"
	"github.com/stoatdb/stoat/vfs"
)

// addDeletion makes a table of sorted entries and a range tombstone, and appends it
// to its level.
func (x *testTree) addDeletion(t *testing.T, level int, run uint64, lo, hi string, seq base.SeqNum, entries ...base.Entry) {
	t.Helper()
	x.next++
	file, err := x.fs.Create(x.fs.Join(x.dir, base.TableName(x.next)), vfs.CatTable)
	must(t, err)
	w, err := table.NewWriter(file, table.WriterOptions{Salt: uint64(x.next) * 77, HashSeed: testSeed})
	must(t, err)
	for _, e := range entries {
		must(t, w.Add(e))
	}
	must(t, w.AddDeletions(rangedel.Build([]rangedel.Deletion{{Lo: []byte(lo), Hi: []byte(hi), Seq: seq}})))
	p, err := w.Finish()
	must(t, err)
	must(t, file.Close())
	x.put(&manifest.Table{
		Num: x.next, Size: p.Size, Salt: p.Salt, Level: level, Run: run,
		Smallest: p.Smallest, Largest: p.Largest, LargestExclusive: p.LargestExclusive,
		SmallestSeq: p.SmallestSeq, LargestSeq: p.LargestSeq,
		Entries: p.Entries, RangeDeletions: p.RangeDeletions,
	}, w.Hashes())
}

func setAt(key string, seq base.SeqNum) base.Entry {
	return base.Entry{Key: []byte(key), Value: []byte("value of " + key), Seq: seq, Meta: base.Meta{Kind: base.KindSet}}
}

// deletionsTree has these levels, the newest first:
//
//	run 2    [b, f) 30
//	run 1    [c, e) 20, d 20
//	level 6  a b c d e f at 1, in two tables
func deletionsTree(t *testing.T) *testTree {
	x := newTestTree(t)
	x.addDeletion(t, 0, 2, "b", "f", 30)
	x.addDeletion(t, 0, 1, "c", "e", 20, setAt("d", 20))
	x.add(t, 6, 0, []base.Entry{setAt("a", 1), setAt("b", 1), setAt("c", 1)})
	x.add(t, 6, 0, []base.Entry{setAt("d", 1), setAt("e", 1), setAt("f", 1)})
	return x
}

func TestRangeTombstones_HideKeysFromGet(t *testing.T) {
	t.Parallel()
	x := deletionsTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	for _, c := range []struct {
		at   base.SeqNum
		want string // a number for each of a to f
	}{
		{1, "111111"}, {19, "111111"}, {20, "110A11"}, {29, "110A11"}, {30, "100001"},
	} {
		for _, get := range bothGets {
			got := ""
			for key := byte('a'); key <= 'f'; key++ {
				_, seq, ok := get(t, v, []byte{key}, c.at)
				switch {
				case !ok:
					got += "0"
				case seq == 20:
					got += "A"
				default:
					got += "1"
				}
			}
			if got != c.want {
				t.Errorf("at %d: got %s, want %s", c.at, got, c.want)
			}
		}
	}
	must(t, files.Close())
}

func TestRangeTombstones_CursorHasThoseOfAllLevels(t *testing.T) {
	t.Parallel()
	x := deletionsTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	all, err := v.Deletions()
	must(t, err)
	for _, at := range []base.SeqNum{1, 20, 30} {
		var c rangedel.Cursor
		c.Init(false)
		must(t, v.AddDeletions(&c, at))
		for key := byte('a'); key <= 'f'; key++ {
			got, _ := c.At([]byte{key})
			if want := all.Cover([]byte{key}, at); got != want {
				t.Errorf("%c at %d: covered by %d, want %d", key, at, got, want)
			}
		}
	}
	var levels Levels
	for since, want := range map[base.SeqNum][]base.SeqNum{0: {30, 20, 1}, 1: {30, 20}, 19: {30, 20}, 20: {30}, 30: nil} {
		levels.Init(v, since, table.IterOptions{})
		var got []base.SeqNum
		for i := range levels.Len() {
			got = append(got, levels.NewestSeq(i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the levels with anything newer than %d go up to %d, want %d", since, got, want)
		}
	}
	levels.Close()
	must(t, files.Close())
}

func TestConflicts_RangeTombstoneCoversReads(t *testing.T) {
	t.Parallel()
	x := deletionsTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	for _, c := range []struct {
		key   string
		since base.SeqNum
		want  bool
	}{
		{"a", 1, false}, {"b", 1, true}, {"bb", 29, true}, {"b", 30, false}, {"f", 1, false}, {"ee", 1, true},
	} {
		var reads readset.Set
		reads.AddKey([]byte(c.key), base.Hash([]byte(c.key), testSeed))
		got, err := v.Conflicts(&reads, c.since)
		must(t, err)
		if got != c.want {
			t.Errorf("%s read at %d: conflict %v, want %v", c.key, c.since, got, c.want)
		}
	}
	must(t, files.Close())
}

func TestRangeTombstones_MissingTableIsCorruption(t *testing.T) {
	t.Parallel()
	x := deletionsTree(t)
	must(t, x.fs.Remove(x.fs.Join(x.dir, base.TableName(2))))
	files := New(x.options())
	v := files.View(&x.version, nil)
	var c rangedel.Cursor
	c.Init(false)
	if err := v.AddDeletions(&c, 30); !isCorrupt(err) {
		t.Errorf("a cursor over them: %v", err)
	}
	if _, err := v.Deletions(); !isCorrupt(err) {
		t.Errorf("a list of them: %v", err)
	}
	must(t, files.Close())
}

func TestHeapBytes_IncludeTheRangeTombstonesOfLevels(t *testing.T) {
	t.Parallel()
	x := deletionsTree(t)
	files := New(x.options())
	v := files.View(&x.version, nil)
	before := v.HeapBytes()
	var c rangedel.Cursor
	c.Init(false)
	must(t, v.AddDeletions(&c, 100))
	if v.HeapBytes() <= before {
		t.Errorf("%d bytes with the lists of levels, %d without", v.HeapBytes(), before)
	}
	must(t, files.Close())
}
