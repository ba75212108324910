package compact

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stoatdb/stoat/internal/manifest"
)

// A column takes part of all levels: older versions must not hide newer ones, and what
// snapshots see must stay.
func TestColumns_KeepWhatSnapshotsSeeAndEmptyUpperLevels(t *testing.T) {
	t.Parallel()
	for seed := range seeds(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			tr := randomTree(t, rand.New(rand.NewPCG(seed, 5)))
			before := tr.sees()
			for _, c := range columnsOf(tr.v) {
				plan := Plan{Reason: ReasonDeletions, OutputLevel: last, Inputs: c}
				if plan = plan.finish(tr.v, tr.s); len(c[last]) < len(plan.Tables()) && !plan.Bottom {
					t.Fatalf("something lies below a column: %s", plan.String())
				}
				tr.apply(t, plan)
			}
			if after := tr.sees(); !reflect.DeepEqual(before, after) {
				t.Errorf("snapshots saw %d versions before and %d after", len(before), len(after))
			}
			for level := range last {
				if n := len(tr.v.Levels[level]); n > 0 {
					t.Errorf("%d tables are left in level %d", n, level)
				}
			}
		})
	}
}

// A plan known to be too large says nothing about other plans.
func TestOutputMax_SkipsUselessPlans(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	table := func(level int, at string, entries, deletions uint64) *manifest.Table {
		return &manifest.Table{Level: level, Run: 1, Smallest: []byte(at), Largest: []byte(at + "z"), Size: 4 * mib,
			Entries: entries, Keys: entries, Deletions: deletions}
	}
	for _, level := range []int{0, 5} {
		v := shaped(table(level, "a", 100, 99), table(level, "b", 100, 98), table(level, "c", 100, 30),
			table(last, "a", 100, 0), table(last, "b", 100, 0), table(last, "c", 100, 0))
		known := map[string]bool{}
		s := Shape{Idle: true, OutputMax: 2 * mib, Useless: func(p *Plan) bool { return known[string(p.Tables()[0].Smallest)] }}
		for range 2 {
			plan, due := Pick(v, s)
			if at := string(plan.Tables()[0].Smallest); !due || known[at] || at == "c" {
				t.Fatalf("due %t, at %q, where %v are of no use: %s", due, at, known, plan.String())
			} else {
				known[at] = true
			}
		}
		if plan, due := Pick(v, s); due {
			t.Errorf("all that may fit is known to be of no use, and %s is due", plan.String())
		}
	}
}

func TestColumns_OnlyThoseThatMayBecomeSmallEnough(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	table := func(level int, run uint64, lo, hi string, entries, deletions uint64, change ...func(*manifest.Table)) *manifest.Table {
		t := &manifest.Table{Level: level, Run: run, Smallest: []byte(lo), Largest: []byte(hi), Size: 4 * mib,
			Entries: entries, Keys: entries, Deletions: deletions}
		for _, f := range change {
			f(t)
		}
		return t
	}
	ranged := func(t *manifest.Table) { t.RangeDeletions = 1 }
	for name, c := range map[string]struct {
		tables []*manifest.Table
		want   []string // first key of each plan
	}{
		"nothing is deleted":       {[]*manifest.Table{table(0, 1, "a", "c", 100, 0), table(last, 0, "a", "c", 100, 0)}, nil},
		"all is":                   {[]*manifest.Table{table(0, 1, "a", "c", 100, 100), table(last, 0, "a", "c", 100, 0)}, []string{"a"}},
		"too little is":            {[]*manifest.Table{table(0, 1, "a", "c", 30, 30), table(last, 0, "a", "c", 100, 0)}, nil},
		"all is, of several runs":  {[]*manifest.Table{table(0, 2, "a", "c", 50, 50), table(0, 1, "b", "d", 50, 50), table(last, 0, "c", "e", 100, 0)}, []string{"a"}},
		"all is, two levels below": {[]*manifest.Table{table(5, 0, "a", "c", 100, 100), table(last, 0, "c", "e", 100, 0)}, []string{"a"}},
		"how much is known":        {[]*manifest.Table{table(0, 1, "a", "c", 1, 0, ranged), table(last, 0, "a", "c", 100, 0)}, []string{"a"}},
		"the emptiest comes first": {[]*manifest.Table{
			table(0, 1, "a", "b", 80, 80), table(last, 0, "a", "b", 100, 0),
			table(0, 1, "c", "d", 90, 90), table(last, 0, "c", "d", 100, 0)}, []string{"c", "a"}},
		"there is room for its inputs": {[]*manifest.Table{table(0, 1, "a", "c", 100, 100, func(t *manifest.Table) { t.Size = mib / 2 }),
			table(last, 0, "a", "c", 100, 0, func(t *manifest.Table) { t.Size = mib })}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, plan := range Columns(shaped(c.tables...), Shape{OutputMax: 2 * mib}) {
				got = append(got, string(plan.Tables()[0].Smallest))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("columns at %q, want %q", got, c.want)
			}
		})
	}
}
