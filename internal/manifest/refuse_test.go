package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// tableAt returns a table of a level that holds keys from lo to hi.
func tableAt(num base.FileNum, level int, lo, hi string, refs ...ValueRef) *Table {
	return &Table{Num: num, Level: level, Smallest: []byte(lo), Largest: []byte(hi), Values: ValueRefsOf(refs...)}
}

// inRun returns t with the given run.
func inRun(t *Table, run uint64) *Table {
	t.Run = run
	return t
}

// smallTree returns a state with tables in levels 0 and 3 and two value files:
// 10, to which table 5 refers, and 11, to which no table refers.
func smallTree(t *testing.T) State {
	t.Helper()
	s, err := firstState().Apply(Edit{
		NextFile: Some(uint64(100)),
		AddTables: []*Table{
			inRun(tableAt(1, 0, "b", "d"), 7), inRun(tableAt(2, 0, "f", "h"), 7), inRun(tableAt(3, 0, "a", "z"), 6),
			tableAt(4, 3, "b", "d"), tableAt(5, 3, "f", "h", ValueRef{File: 10, Bytes: 5}),
		},
		AddValues: []*ValueFile{{Num: 11, File: 11, Bytes: 9}, {Num: 10, File: 12, Bytes: 9}},
	})
	must(t, err)
	return s
}

func TestApply_RefusesAnInvalidTree(t *testing.T) {
	t.Parallel()
	first := smallTree(t)
	exclusive := tableAt(20, 2, "k", "k")
	exclusive.LargestExclusive = true
	end := string(base.EndOfKeys)
	backwards := tableAt(20, 2, "k", "l")
	backwards.SmallestSeq = 1
	negative := tableAt(20, 2, "k", "l")
	negative.Size = -1
	huge, beyond, endless := tableAt(20, 2, "k", "l"), tableAt(20, 2, "k", "l"), tableAt(20, 2, "k", "l")
	huge.Size, beyond.LargestSeq, endless.Entries = fileSizeMax+1, base.SeqNumMax+1, 1<<62
	points, times := tableAt(20, 2, "k", "l"), tableAt(20, 2, "k", "l")
	points.TenthOutdated, points.HalfOutdated = 2, 1
	times.HalfExpired = 1
	shifted := func(entries, deletions uint64) *Table {
		m := tableAt(20, 2, "k", "l")
		m.SeqShift, m.SmallestSeq, m.LargestSeq, m.Entries, m.RangeDeletions = 1, 1, 1, entries, deletions
		return m
	}
	ingest := func(m *Table) Edit { return Edit{AddTables: []*Table{m}, RequiredFeatures: []string{FeatureIngest}} }
	add := func(tables ...*Table) Edit { return Edit{AddTables: tables} }
	drop := func(places ...Place) Edit { return Edit{DropTables: places} }
	values := func(files ...*ValueFile) Edit { return Edit{AddValues: files} }
	for _, c := range []struct {
		name string
		edit Edit
		want string
	}{
		{"a table that is not there", drop(Place{3, 9}), "not in level 3"},
		{"a table of another level", drop(Place{2, 4}), "not in level 2"},
		{"a level that is none", drop(Place{Levels, 4}), "not in level 7"},
		{"a table dropped twice", drop(Place{3, 4}, Place{3, 4}), "not in level 3"},
		{"a number that is live", add(tableAt(4, 2, "k", "l")), "added twice"},
		{"a number twice", add(tableAt(20, 2, "k", "l"), tableAt(20, 4, "k", "l")), "added twice"},
		{"a level too deep", add(tableAt(20, Levels, "k", "l")), "in level 7 of 7"},
		{"a negative level", add(tableAt(20, -1, "k", "l")), "in level -1"},
		{"a run below level 0", add(inRun(tableAt(20, 1, "k", "l"), 1)), "in run 1"},
		{"a reference that is too large", add(tableAt(20, 2, "k", "l", ValueRef{File: 10, Bytes: numberMax + 1})), "above the limit"},
		{"a run without a next one", add(inRun(tableAt(20, 0, "k", "l"), 1<<62)), "in run"},
		{"an overlap in front", add(tableAt(20, 3, "a", "b")), "overlap"},
		{"an overlap behind", add(tableAt(20, 3, "d", "e")), "overlap"},
		{"an overlap around", add(tableAt(20, 3, "a", "z")), "overlap"},
		{"an overlap inside", add(tableAt(20, 3, "c", "c")), "overlap"},
		{"the same bounds", add(tableAt(20, 3, "b", "d")), "overlap"},
		{"an overlap in a run", add(inRun(tableAt(20, 0, "c", "e"), 7)), "overlap"},
		{"an overlap of what is added", add(tableAt(20, 2, "a", "c"), tableAt(21, 2, "c", "d")), "overlap"},
		{"bounds out of order", add(tableAt(20, 2, "l", "k")), "begins at key"},
		{"bounds of no key", add(exclusive), "begins at key"},
		{"no smallest bound", add(tableAt(20, 2, "", "k")), "bounds of 0 and 1 bytes"},
		{"the end of all keys as a smallest bound", add(tableAt(20, 2, end, end)), fmt.Sprintf("bounds of %d and %[1]d bytes", len(end))},
		{"the end of all keys as a key", add(tableAt(20, 2, "k", end)), "a key behind all keys"},
		{"a largest bound that is too long", add(tableAt(20, 2, "k", end+"k")), fmt.Sprintf("bounds of 1 and %d bytes", len(end)+1)},
		{"sequence numbers out of order", add(backwards), "begins at sequence number"},
		{"a negative size", add(negative), "size"},
		{"a table larger than any file", add(huge), "size"},
		{"a sequence number that is none", add(beyond), "begins at sequence number"},
		{"more entries than can be", add(endless), "counts more than the limit"},
		{"discard points out of order", add(points), "discard points 2 and 1"},
		{"a half without a tenth", add(times), "expiry times 0 and 1"},
		{"a shift of no entries", ingest(shifted(0, 0)), "with 0 entries"},
		{"a shift of a range tombstone", ingest(shifted(1, 1)), "and 1 range tombstones"},
		{"a shift without the feature", add(shifted(1, 0)), `without the feature "ingest"`},
		{"a table of the future", add(tableAt(100, 2, "k", "l")), "next file is 100"},
		{"a pointer to nowhere", add(tableAt(20, 2, "k", "l", ValueRef{99, 1})), "not live"},
		{"a pointer to a table's number", add(tableAt(20, 2, "k", "l", ValueRef{4, 1})), "not live"},
		{"a pointer to nothing", add(tableAt(20, 2, "k", "l", ValueRef{10, 0})), "0 bytes"},
		{"pointers out of order", add(tableAt(20, 2, "k", "l", ValueRef{11, 1}, ValueRef{10, 1})), "after 11"},
		{"pointers to more than there is", add(tableAt(20, 2, "k", "l", ValueRef{10, 1<<64 - 1})), "above the limit"},
		{"a value file that is not there", Edit{DropValues: []base.FileNum{9}}, "not live"},
		{"a value file dropped twice", Edit{DropValues: []base.FileNum{11, 11}}, "not live"},
		{"a value file in use", Edit{DropValues: []base.FileNum{10}}, "refer to 5 bytes of it"},
		{"a value file in use, and again", Edit{DropValues: []base.FileNum{10}, AddValues: []*ValueFile{{Num: 10, File: 12}}}, "refer to 5 bytes of it"},
		{"a value file that a moving table uses", Edit{DropTables: []Place{{3, 5}}, DropValues: []base.FileNum{10},
			AddTables: []*Table{tableAt(5, 4, "f", "h", ValueRef{10, 5})}}, "not live"},
		{"a value file twice", values(&ValueFile{Num: 20, File: 20}, &ValueFile{Num: 20, File: 21}), "added twice"},
		{"two value files in one file", values(&ValueFile{Num: 20, File: 12}), "000012.values"},
		{"two new value files in one file", values(&ValueFile{Num: 20, File: 22}, &ValueFile{Num: 21, File: 22}), "000022.values"},
		{"a value file of the future", values(&ValueFile{Num: 100, File: 99}), "next file is 100"},
		{"a value file in one of the future", values(&ValueFile{Num: 10, File: 100}), "next file is 100"},
		{"a value file of negative size", values(&ValueFile{Num: 20, File: 20, Size: -1}), "size"},
		{"a value file larger than any", values(&ValueFile{Num: 20, File: 20, Size: fileSizeMax + 1}), "size"},
		{"a value file of no sequence number", values(&ValueFile{Num: 20, File: 20, LastSeq: base.SeqNumMax + 1}), "begins at sequence number"},
		{"a value file of too many values", values(&ValueFile{Num: 20, File: 20, Values: 1 << 62}), "counts more than the limit"},
		{"a value file backwards", values(&ValueFile{Num: 20, File: 20, FirstSeq: 1}), "begins at sequence number"},
	} {
		after, err := first.Apply(c.edit)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
		if !same(after, first) {
			t.Errorf("%s: the state changed to %+v", c.name, after)
		}
	}
	must(t, first.Version.check())
}

// Of the two value files, the edit before drops 11 and gives 10 another file.
func TestReplay_ChecksValueFilesAgainstAllEarlierEdits(t *testing.T) {
	t.Parallel()
	first := smallTree(t).snapshot()
	change := Edit{DropValues: []base.FileNum{11}, AddValues: []*ValueFile{{Num: 10, File: 30}}}
	add := func(num, file base.FileNum) Edit { return Edit{AddValues: []*ValueFile{{Num: num, File: file}}} }
	for _, c := range []struct {
		name string
		edit Edit
		want string // in the error; empty if there is none
	}{
		{"a dropped value file dropped again", Edit{DropValues: []base.FileNum{11}}, "not live"},
		{"a pointer to a dropped value file", Edit{AddTables: []*Table{tableAt(20, 2, "k", "l", ValueRef{11, 1})}}, "not live"},
		{"the new file of another value file", add(20, 30), "000030.values"},
		{"the old file of a replaced value file", add(20, 12), ""},
		{"the file of a dropped value file", add(20, 11), ""},
		{"the number of a dropped value file", add(11, 20), ""},
	} {
		d := newDraftOfMany()
		must(t, d.apply(&first, 100))
		must(t, d.apply(&change, 100))
		got := ""
		if err := d.apply(&c.edit, 100); err != nil {
			got = err.Error()
		} else {
			must(t, d.version().check())
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", c.name, got, c.want)
		}
	}
}

func TestApply_TableMovesInOneEdit(t *testing.T) {
	t.Parallel()
	first := smallTree(t)
	s, err := first.Apply(Edit{
		DropTables: []Place{{3, 5}},
		AddTables:  []*Table{tableAt(5, 4, "f", "h", ValueRef{10, 5})},
	})
	must(t, err)
	if len(s.Version.Levels[3]) != 1 || len(s.Version.Levels[4]) != 1 || s.Version.Levels[4][0].Num != 5 {
		t.Fatalf("%+v", s.Version)
	}
	if v, ok := s.Version.Value(10); !ok || v.Live != 5 {
		t.Fatalf("%+v", v)
	}
	if len(first.Version.Levels[3]) != 2 || &first.Version.Levels[0][0] != &s.Version.Levels[0][0] {
		t.Fatal("the move changed the old version, or copied a level that it does not change")
	}
}

func TestApply_RewrittenValueFileKeepsItsReferences(t *testing.T) {
	t.Parallel()
	s, err := smallTree(t).Apply(Edit{AddValues: []*ValueFile{{Num: 10, File: 30, Bytes: 5}}})
	must(t, err)
	if v, ok := s.Version.Value(10); !ok || v.Live != 5 || v.File != 30 {
		t.Fatalf("%+v, %v", v, ok)
	}
	s, err = s.Apply(Edit{DropTables: []Place{{3, 5}}, DropValues: []base.FileNum{10}})
	must(t, err)
	if v, ok := s.Version.Value(10); ok || len(s.Version.Values) != 1 {
		t.Fatalf("%+v is left of %+v", v, s.Version)
	}
}

func TestApply_EditWithoutTablesSharesTheVersion(t *testing.T) {
	t.Parallel()
	first := smallTree(t)
	s, err := first.Apply(Edit{LastSeq: Some(base.SeqNum(5)), FlushedSeq: Some(base.SeqNum(4))})
	must(t, err)
	if s.Version != first.Version || s.FlushedSeq != 4 {
		t.Fatalf("%+v, want %p as before", s, first.Version)
	}
}
