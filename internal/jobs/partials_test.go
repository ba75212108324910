package jobs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/state"
)

func TestWithoutPartials_AMemtableReleasedMeanwhileMayHaveHadSome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		kind    base.Kind
		flushed bool // between the two looks at the view
		want    bool
	}{
		{"whole entries", base.KindSet, false, true},
		{"a partial entry", base.KindMerge, false, false},
		{"a partial entry that is flushed", base.KindMerge, true, false},
	} {
		table := memtable.New(memtable.Options{Memory: memtable.Heap(), ChunkSize: 4 << 10})
		key := []byte("k")
		if err := table.Set(key, []byte("1"), base.Hash(key, 0), base.Meta{Kind: c.kind}, 1); err != nil {
			t.Fatal(err)
		}
		v := &state.View{Memtables: []*memtable.Table{table}}
		now := v
		_, without := withoutPartials(func() *state.View {
			v := now
			if c.flushed && v.Memtables != nil {
				now = new(state.View)
				table.Release()
			}
			return v
		})
		if without != c.want {
			t.Errorf("%s: without partial entries is %t, want %t", c.name, without, c.want)
		}
		table.Release()
	}
}

// Level 0 has 3,000 tables in 12 runs. Each run has one over the base table of the plan.
func TestRunsAbove_HasOnlyTablesThatOverlapThePlan(t *testing.T) {
	t.Parallel()
	const runs, tables, bottom = 12, 250, manifest.Levels - 1
	key := func(n int) []byte { return fmt.Appendf(nil, "%06d", n) }
	table := func(level, from, to int, partials uint64) *manifest.Table {
		return &manifest.Table{Level: level, Smallest: key(from), Largest: key(to), Partials: partials}
	}
	v := new(manifest.Version)
	for run := range runs {
		for i := range tables {
			m := table(0, 100*i+7*run+60, 100*i+7*run+63, 1)
			m.Run = uint64(runs - run)
			v.Levels[0] = append(v.Levels[0], m)
		}
	}
	for i := range tables {
		v.Levels[bottom] = append(v.Levels[bottom], table(bottom, 100*i, 100*i+99, 1))
	}
	with, without := table(5, 12_030, 12_035, 1), table(5, 12_050, 12_055, 0)
	v.Levels[5] = []*manifest.Table{with, without, table(5, 12_100, 12_199, 1)}
	for _, inputs := range []int{0, 1} { // of level 0
		plan := compact.Plan{OutputLevel: bottom}
		plan.Inputs[bottom] = v.Levels[bottom][120:121]
		plan.Inputs[0] = v.Levels[0][120 : 120+inputs]
		above := runsAbove(v, &plan)
		if n := len(slices.Concat(above...)); n != runs-inputs+1 || len(above) != n {
			t.Errorf("%d inputs of level 0: %d tables in %d runs, want %d of each", inputs, n, len(above), runs-inputs+1)
		}
		held := 0
		for n := 12_000; n < 12_100; n++ {
			want := with.Contains(key(n)) || slices.ContainsFunc(v.Levels[0], func(m *manifest.Table) bool {
				return m.Contains(key(n)) && !slices.Contains(plan.Inputs[0], m)
			})
			got := slices.ContainsFunc(above, func(run []*manifest.Table) bool { return inRun(run, key(n)) })
			if got != want {
				t.Errorf("%d inputs of level 0: key %d may be in a newer table: %t, want %t", inputs, n, got, want)
			}
			if want {
				held++
			}
		}
		if held == 0 || held == 100 {
			t.Errorf("%d of 100 keys may be in newer tables, want some but not all", held)
		}
	}
}

func TestRunsAbove_InARunFindsEachTableOfIt(t *testing.T) {
	t.Parallel()
	v := new(manifest.Version)
	for _, bounds := range []string{"bc", "de", "gi"} {
		v.Levels[0] = append(v.Levels[0], &manifest.Table{Run: 2, Partials: 1, Smallest: []byte(bounds[:1]), Largest: []byte(bounds[1:])})
	}
	v.Levels[0][1].LargestExclusive = true
	input := &manifest.Table{Run: 1, Smallest: []byte("a"), Largest: []byte("z")}
	v.Levels[0] = append(v.Levels[0], input)
	var plan compact.Plan
	plan.Inputs[0] = []*manifest.Table{input}
	above := runsAbove(v, &plan)
	if len(above) != 1 || len(above[0]) != 3 {
		t.Fatalf("%d runs, want one of three tables", len(above))
	}
	found := ""
	for _, key := range "abcdefghij" {
		if inRun(above[0], []byte(string(key))) {
			found += string(key)
		}
	}
	if found != "bcdghi" {
		t.Errorf("the run may have keys %q", found)
	}
}
