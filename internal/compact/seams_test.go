package compact

import (
	"math"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Tables of 1 MiB end between two versions of a user's key. If the discard point has made
// garbage of the version behind that end, both tables are inputs.
func TestPickRange_MergesBothTablesOfAUsersKeyWithGarbage(t *testing.T) {
	t.Parallel()
	const mib, left, right, above = 1 << 20, 1, 2, 3
	table := func(num base.FileNum, level int, lo, hi string) *manifest.Table {
		from, _ := stampedKey(t, lo+"#1")
		to, _ := stampedKey(t, hi+"#1")
		m := &manifest.Table{Num: num, Level: level, Size: mib, Entries: 10, Smallest: from, Largest: to, SmallestSeq: 1, LargestSeq: 1}
		if level == 0 {
			m.Run = 1
		}
		return m
	}
	type bounds [2]string
	for _, c := range []struct {
		name               string
		left, right, above bounds // above is in level 0, if there is one
		point              uint64
		inputMax           int64
		outputMax          int64
		exclusive          base.FileNum // this table ends before its largest bound
		damaged            base.FileNum
		want               []base.FileNum
	}{
		{name: "level 0 ends before the seam", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "c@7"},
			point: 7, want: []base.FileNum{above, left, right}},
		{name: "its last version is after the point", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "c@7"},
			point: 6, want: []base.FileNum{above, left}},
		{name: "it ends with a range tombstone", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "c@7"},
			point: 7, exclusive: above, want: []base.FileNum{above, left}},
		{name: "it ends with another key", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "b@2"},
			point: 7, want: []base.FileNum{above, left}},
		{name: "the table behind it is damaged", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "c@7"},
			point: 7, damaged: right, want: []base.FileNum{above, left}},
		{name: "the job is full", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "c@7"},
			point: 7, inputMax: 2 * mib, want: []base.FileNum{above, left}},
		{name: "there is no room", left: bounds{"a@9", "b@1"}, right: bounds{"c@5", "d@1"}, above: bounds{"b@3", "c@7"},
			point: 7, outputMax: 2 * mib, want: []base.FileNum{above, left}},
		{name: "level 0 begins behind the seam", left: bounds{"a@9", "c@5"}, right: bounds{"d@9", "d@1"}, above: bounds{"c@3", "d@5"},
			point: 5, want: []base.FileNum{above, left, right}},
		{name: "the version before the seam is after the point", left: bounds{"a@9", "c@5"}, right: bounds{"d@9", "d@1"}, above: bounds{"c@3", "d@5"},
			point: 4, want: []base.FileNum{above, right}},
		{name: "the table before the seam ends with a range tombstone", left: bounds{"a@9", "c@5"}, right: bounds{"d@9", "d@1"}, above: bounds{"c@3", "d@5"},
			point: 5, exclusive: left, want: []base.FileNum{above, right}},
		{name: "in the last level alone", left: bounds{"a@9", "c@7"}, right: bounds{"c@5", "d@1"},
			point: 7, want: []base.FileNum{left, right}},
		{name: "in the last level, after the point", left: bounds{"a@9", "c@7"}, right: bounds{"c@5", "d@1"},
			point: 6, want: []base.FileNum{left}},
	} {
		v := &manifest.Version{}
		v.Levels[last] = []*manifest.Table{table(left, last, c.left[0], c.left[1]), table(right, last, c.right[0], c.right[1])}
		if c.above[0] != "" {
			v.Levels[0] = []*manifest.Table{table(above, 0, c.above[0], c.above[1])}
		}
		for m := range v.Tables() {
			m.LargestExclusive = m.Num == c.exclusive
		}
		s := Shape{OldestSnapshot: 100, InputMax: c.inputMax, OutputMax: c.outputMax, Damaged: map[base.FileNum]bool{c.damaged: true},
			Discardable:  func(*manifest.Table, int) bool { return true },
			DiscardPoint: func(*manifest.Table) uint64 { return c.point }}
		plan, due := PickRange(v, s, Range{UpTo: base.SeqNumMax, Next: math.MaxUint64})
		var got []base.FileNum
		for _, m := range plan.Tables() {
			got = append(got, m.Num)
		}
		if !due || plan.Move || !slices.Equal(got, c.want) {
			t.Errorf("%s: inputs %v, want %v; %s", c.name, got, c.want, plan.String())
		}
		if n := len(v.Levels[last]); n != 2 || v.Levels[last][0].Num != left || v.Levels[last][1].Num != right {
			t.Errorf("%s: the version has changed", c.name)
		}
	}
}

// A moved table would have to be rewritten, and a gathering has no room for another table.
func TestPick_MovesAndGatheringsCloseNoSeams(t *testing.T) {
	t.Parallel()
	from, _ := stampedKey(t, "a@9#1")
	to, _ := stampedKey(t, "c@7#1")
	behind, _ := stampedKey(t, "c@5#1")
	end, _ := stampedKey(t, "d@1#1")
	first := &manifest.Table{Num: 1, Run: 1, Size: 1 << 20, Entries: 10, Smallest: from, Largest: to}
	second := &manifest.Table{Num: 2, Level: last, Size: 1 << 20, Entries: 10, Smallest: behind, Largest: end}
	s := Shape{Discardable: func(*manifest.Table, int) bool { return false }, DiscardPoint: func(*manifest.Table) uint64 { return 7 }}
	v := &manifest.Version{}
	v.Levels[0], v.Levels[last] = []*manifest.Table{first}, []*manifest.Table{second}
	if plan, due := Pick(v, s); !due || plan.Reason != ReasonMove || len(plan.Tables()) != 1 {
		t.Errorf("picked %s, want one table moved", plan.String())
	}
	sunk := *first
	sunk.Level, sunk.Run, sunk.Pointers, sunk.Jumps = last, 0, 10, 9
	v = &manifest.Version{}
	v.Levels[last] = []*manifest.Table{&sunk, second}
	if plan, due := PickGathering(v, s, Gathering{Share: 0.5, RecordMax: 1, Bytes: 1}); !due || len(plan.Tables()) != 1 {
		t.Errorf("picked %s, want the values of one table gathered", plan.String())
	}
}
