package compact

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// A joinTree is a version whose last level has tables of one key each that refer to value
// files.
type joinTree struct{ v manifest.Version }

// file adds a value file of that many bytes without references.
func (t *joinTree) file(bytes uint64) base.FileNum {
	n := base.FileNum(1000 + len(t.v.Values))
	t.v.Values = append(t.v.Values, manifest.LiveValues{
		ValueFile: &manifest.ValueFile{Num: n, File: n, Size: int64(bytes), Bytes: bytes}})
	return n
}

// table adds a table to the level. It refers to a part of some files.
func (t *joinTree) table(level int, size int64, part uint64, files ...base.FileNum) {
	n := len(t.v.Levels[level])
	key := fmt.Appendf(nil, "%04d", n)
	m := &manifest.Table{Num: base.FileNum(100*level + n + 1), Level: level, Size: size, Smallest: key, Largest: key, Entries: 1}
	var refs []manifest.ValueRef
	for _, f := range files {
		live := &t.v.Values[f-1000]
		refs = append(refs, manifest.ValueRef{File: f, Bytes: live.Bytes / part})
		live.Live += live.Bytes / part
	}
	m.Values = manifest.ValueRefsOf(refs...)
	t.v.Levels[level] = append(t.v.Levels[level], m)
}

// files adds n files of that many bytes and a table that refers to all of them.
func (t *joinTree) files(n int, bytes uint64) []base.FileNum {
	var all []base.FileNum
	for range n {
		all = append(all, t.file(bytes))
	}
	t.table(last, 1<<10, 1, all...)
	return all
}

const joinMiB = 1 << 20

func TestJoin_SmallFilesWhenThereAreMany(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files int
		idle  bool
		want  bool
	}{{joinFiles, false, false}, {joinFiles + 1, false, true}, {joinFiles, true, false}, {joinFiles + 1, true, true}} {
		var tr joinTree
		tr.files(test.files, joinMiB)
		plan, due := Pick(&tr.v, Shape{Idle: test.idle})
		if due != test.want || due && plan.Reason != ReasonFiles {
			t.Errorf("%d files, idle %v: due %v, %s", test.files, test.idle, due, plan.String())
		}
	}
}

func TestJoin_AboutAFileOfUsualSize(t *testing.T) {
	t.Parallel()
	var tr joinTree
	first := tr.files(300, joinMiB)
	tr.files(300, joinMiB)
	plan, due := Pick(&tr.v, Shape{})
	if !due || !slices.Equal(plan.Join, first[:128]) || len(plan.Inputs[last]) != 1 {
		t.Errorf("%s: joins %d files", plan.String(), len(plan.Join))
	}
}

func TestJoin_OnlyIfTheFileGrows(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	join := func(sizes ...uint64) []int {
		var tr joinTree
		var all []base.FileNum
		for _, size := range sizes {
			all = append(all, tr.file(size))
		}
		tr.table(last, kib, 1, all...)
		plan, _ := PickJoining(&tr.v, Shape{}, Joining{})
		if len(plan.Join) > 0 && plan.Reason != ReasonManual {
			t.Errorf("%s", plan.String())
		}
		which := []int{}
		for _, f := range plan.Join {
			which = append(which, slices.Index(all, f))
		}
		return which
	}
	for _, test := range []struct {
		sizes []uint64
		want  []int
	}{
		{[]uint64{joinMiB, joinMiB, joinMiB}, []int{}},
		{[]uint64{joinMiB, joinMiB, joinMiB, joinMiB}, []int{0, 1, 2, 3}},
		{[]uint64{4 * joinMiB, joinMiB, joinMiB, joinMiB, joinMiB}, []int{1, 2, 3, 4}},
		{[]uint64{joinMiB, joinSize, joinMiB, joinSize, joinMiB, joinSize, joinSize, joinMiB}, []int{0, 2, 4, 7}},
		{[]uint64{100 * kib, 100 * kib, 200 * kib, 15 * joinMiB}, []int{}},
	} {
		if got := join(test.sizes...); !slices.Equal(got, test.want) {
			t.Errorf("files of %d bytes: joined %v, want %v", test.sizes, got, test.want)
		}
	}
}

// Short values that lie mixed are gathered instead, which makes large files and restores
// their order.
func TestJoin_ShortValuesOnlyInOrder(t *testing.T) {
	t.Parallel()
	const files = joinFiles + 1
	for _, test := range []struct {
		mean        uint64
		jumps       uint64 // of 100 pointers to each file
		level0, due bool
	}{
		{mean: joinMean, jumps: 100 * files, due: true},
		{mean: joinMean / 2, jumps: 100 * files},
		{mean: joinMean / 2, jumps: 50 * files},
		{mean: joinMean / 2, jumps: files - 1, due: true},
		{mean: joinMean / 2, jumps: 13 * files, due: true},
		{mean: joinMean / 2, jumps: files - 1, level0: true},
	} {
		var tr joinTree
		all := tr.files(files, joinMiB)
		m := tr.v.Levels[last][0]
		m.Pointers, m.Jumps = 100*files, test.jumps
		if test.level0 { // it refers to half of each
			refs := slices.Collect(m.Values.All())
			for i, f := range all {
				refs[i].Bytes /= 2
				tr.v.Values[f-1000].Live /= 2
			}
			m.Values = manifest.ValueRefsOf(refs...)
			tr.table(0, 1<<10, 2, all...)
		}
		for _, f := range tr.v.Values {
			f.ValueFile.Values = f.Bytes / test.mean
		}
		if plan, due := newPicker(&tr.v, Shape{}).pickJoin(joinFiles, automaticJoining); due != test.due {
			t.Errorf("%+v: due %v, %s", test, due, plan.String())
		}
	}
}

// A file with few values is in order, but far from the others.
func TestJoin_FewShortValues(t *testing.T) {
	t.Parallel()
	var tr joinTree
	tr.files(joinFiles+1, 4<<10)
	m := tr.v.Levels[last][0]
	m.Pointers, m.Jumps = 4*(joinFiles+1), joinFiles
	for _, f := range tr.v.Values {
		f.ValueFile.Values = 4
	}
	if _, due := Pick(&tr.v, Shape{}); !due {
		t.Error("they are not joined")
	}
}

func TestJoin_NotIfOtherTablesRefer(t *testing.T) {
	t.Parallel()
	var tr joinTree
	shared := []base.FileNum{tr.file(joinMiB), tr.file(joinMiB), tr.file(joinMiB), tr.file(joinMiB)}
	tr.table(last, 1<<10, 2, shared...)
	tr.table(last-1, 1<<10, 2, shared...)
	if plan, due := PickJoining(&tr.v, Shape{}, Joining{}); due {
		t.Errorf("%s", plan.String())
	}
	// Neighbours in one level are rewritten together.
	tr = joinTree{}
	shared = []base.FileNum{tr.file(joinMiB), tr.file(joinMiB), tr.file(joinMiB), tr.file(joinMiB)}
	tr.table(last, 1<<10, 2, shared...)
	tr.table(last, 1<<10, 2, shared...)
	if plan, due := PickJoining(&tr.v, Shape{}, Joining{}); !due || len(plan.Inputs[last]) != 2 {
		t.Errorf("due %v: %s", due, plan.String())
	}
}

func TestJoin_NotIfTablesAreLarge(t *testing.T) {
	t.Parallel()
	var tr joinTree
	files := []base.FileNum{tr.file(joinMiB), tr.file(joinMiB), tr.file(joinMiB), tr.file(joinMiB)}
	tr.table(last, 9*joinMiB, 1, files...)
	if plan, due := PickJoining(&tr.v, Shape{}, Joining{}); due {
		t.Errorf("%s", plan.String())
	}
}

func TestJoin_NotNewFiles(t *testing.T) {
	t.Parallel()
	var tr joinTree
	files := tr.files(8, joinMiB)
	plan, due := PickJoining(&tr.v, Shape{}, Joining{Next: files[4]})
	if !due || !slices.Equal(plan.Join, files[:4]) {
		t.Errorf("due %v: joins %v", due, plan.Join)
	}
}

func TestJoin_DebtForVeryManySmallFiles(t *testing.T) {
	t.Parallel()
	var tr joinTree
	tr.files(joinDebtFiles, joinMiB)
	if debt := Debt(&tr.v, Shape{}); debt != 0 {
		t.Errorf("at the limit: %d", debt)
	}
	tr.files(2, joinMiB)
	if debt := Debt(&tr.v, Shape{}); debt != 2*joinDebtBytes {
		t.Errorf("two beyond it: %d", debt)
	}
	for _, table := range tr.v.Levels[last] {
		table.Size = 1 << 40
	}
	if debt := Debt(&tr.v, Shape{}); debt != 0 {
		t.Errorf("that stay as they are: %d", debt)
	}
}

func TestPickNeeded_JoinsNoFiles(t *testing.T) {
	t.Parallel()
	for _, idle := range []bool{false, true} {
		var tr joinTree
		tr.files(joinFiles+1, joinMiB)
		if plan, due := PickNeeded(&tr.v, Shape{Idle: idle}); due {
			t.Errorf("idle %t: %s", idle, plan.String())
		}
	}
}

// spread adds files of that many bytes, and tables that each refer to a part of all of them.
func (t *joinTree) spread(files int, bytes uint64, tables int) {
	var all []base.FileNum
	for range files {
		all = append(all, t.file(bytes))
	}
	for range tables {
		t.table(last, 32<<20, uint64(tables), all...)
	}
}

func TestJoin_NotIfMoreTablesReferThanOnePlanReads(t *testing.T) {
	t.Parallel()
	const tables = 40
	var tr joinTree
	tr.spread(joinFiles+1, joinMiB, tables)
	p := newPicker(&tr.v, Shape{})
	if plan, due := p.pickJoin(joinFiles, automaticJoining); due {
		t.Errorf("%s", plan.String())
	}
	j, steps := automaticJoining, 0
	for w := windowOver(tr.v.Levels[last], p.smallFiles(&j)); len(w.firsts) > 0; steps++ {
		if w.grow(p.s.InputMax, p.joinMax()); w.begins() || w.to != 8 {
			t.Errorf("a window of %d tables refers to all of some files: %t", w.to, w.begins())
		}
		w.shift()
	}
	if steps != 1 {
		t.Errorf("the window moves %d times, want once: no file begins behind the first table", steps)
	}
	// Only the last table refers to these.
	whole := tr.files(joinFiles+1, joinMiB)
	plan, due := newPicker(&tr.v, Shape{}).pickJoin(joinFiles, automaticJoining)
	if !due || len(plan.Inputs[last]) != 1 || !slices.Equal(plan.Join, whole[:128]) {
		t.Errorf("due %t: %s, of %d files", due, plan.String(), len(plan.Join))
	}
}

func TestJoin_TheSlidingWindowFindsWhatEachWindowByItselfWould(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tr := randomJoinTree(rng)
		p := newPicker(&tr.v, Shape{InputMax: 16 * joinMiB})
		level, j := tr.v.Levels[last], automaticJoining
		tables, join := p.joinIn(level, p.smallFiles(&j), j.growth)
		wantTables, want := joinEachWindow(p, level, j.growth)
		if !slices.Equal(tables, wantTables) || !slices.Equal(join, want) {
			t.Errorf("seed %d: joins %v of %d tables, want %v of %d", seed, join, len(tables), want, len(wantTables))
		}
		if len(want) > 0 {
			found++
		}
	}
	if found < 50 || found == 500 {
		t.Errorf("%d of 500 trees have files to join, want some but not all", found)
	}
}

// randomJoinTree returns a tree in which up to four neighbouring tables refer to a file. To
// some files, another level refers as well.
func randomJoinTree(rng *rand.Rand) *joinTree {
	tr := new(joinTree)
	refers := make([][]base.FileNum, 1+rng.IntN(30))
	for range 1 + rng.IntN(100) {
		f := tr.file(rng.Uint64N(joinMiB) + 1024)
		at := rng.IntN(len(refers))
		for i := range min(1+rng.IntN(4), len(refers)-at) {
			if i == 0 || rng.IntN(3) > 0 {
				refers[at+i] = append(refers[at+i], f)
			}
		}
	}
	sizeMax := int64(joinMiB) << rng.IntN(4)
	for _, files := range refers {
		tr.table(last, rng.Int64N(sizeMax)+1024, 2, files...)
	}
	for i := range tr.v.Values {
		if rng.IntN(10) == 0 {
			tr.v.Values[i].Live++
		}
	}
	return tr
}

// joinEachWindow is picker.joinIn for a level in which all files are small. It reads the
// references again for each window.
func joinEachWindow(p *picker, level []*manifest.Table, growth uint64) (tables []*manifest.Table, join []base.FileNum) {
	for from := 0; from < len(level); {
		to, size, bytes, begins := from, int64(0), uint64(0), false
		seen := map[base.FileNum]*smallFile{}
		var whole []*smallFile
		for ; to < len(level) && level[to].Values.Len() > 0 && bytes < p.joinMax(); to++ {
			if to > from && size+level[to].Size > p.s.InputMax {
				break
			}
			size += level[to].Size
			for ref := range level[to].Values.All() {
				f := seen[ref.File]
				if f == nil {
					v, _ := p.v.Value(ref.File)
					f = &smallFile{num: ref.File, live: v.Live, first: to}
					seen[ref.File] = f
				}
				if f.referred += ref.Bytes; f.referred == f.live {
					whole, bytes, begins = append(whole, f), bytes+f.live, begins || f.first == from
				}
			}
		}
		some, moved := joinable(whole, growth, p.joinMax())
		if !begins || len(some) == 0 || moved*joinTables < uint64(size) {
			from++
			continue
		}
		if len(some) > len(join) {
			tables, join = level[from:to], some
		}
		from = to
	}
	return tables, join
}

// BenchmarkDebt_SmallFilesSpreadOverAllTables has the value files of large commits whose keys
// are anywhere. They cannot be joined.
func BenchmarkDebt_SmallFilesSpreadOverAllTables(b *testing.B) {
	const files, tables = 25_000, 40
	var tr joinTree
	tr.spread(files, 4*joinMiB, tables)
	for b.Loop() {
		if debt := Debt(&tr.v, Shape{}); debt != 0 {
			b.Fatalf("the debt is %d", debt)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(files*tables), "ns/reference")
}
