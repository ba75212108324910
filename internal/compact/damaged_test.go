package compact

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
)

// The test settles random trees with some unreadable tables. No plan reads one, every plan
// keeps what snapshots see and the order of versions, and the plans end.
func TestDamaged_PickingAvoidsThem(t *testing.T) {
	t.Parallel()
	for seed := range seeds(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 3))
			tr := randomTree(t, rng)
			tr.s.Damaged = map[base.FileNum]bool{}
			part := 1 + rng.IntN(10)
			for _, tables := range tr.v.Levels {
				for _, m := range tables {
					if rng.IntN(part) == 0 {
						tr.s.Damaged[m.Num] = true
					}
				}
			}
			before := tr.sees()
			for steps := 0; ; steps++ {
				p, ok := Pick(tr.v, tr.s)
				if !ok {
					break
				}
				if steps > 5000 {
					t.Fatalf("still busy after %d steps: %s", steps, p.String())
				}
				for _, m := range p.Tables() {
					if tr.s.Damaged[m.Num] && !p.Drop && !p.Move {
						t.Fatalf("table %d of level %d cannot be read: %s", m.Num, m.Level, p.String())
					}
				}
				tr.apply(t, p)
			}
			if after := tr.sees(); !reflect.DeepEqual(before, after) {
				t.Errorf("snapshots saw %d versions before and %d after", len(before), len(after))
			}
		})
	}
}

// overDamage returns a tree with that many runs of level 0 over a table of the last level.
// Each run is ten times as large as the next newer one. A small new table is over another
// table. It also returns the shape in which the first of those two is damaged.
func overDamage(runs int) (*manifest.Version, Shape) {
	const kib = 1 << 10
	tables := []*manifest.Table{{Run: 100, Smallest: []byte("x"), Largest: []byte("y"), Size: kib}}
	size := int64(10 * kib)
	for i := range runs {
		tables = append(tables, &manifest.Table{Run: uint64(99 - i), Smallest: []byte("a"), Largest: []byte("m"), Size: size,
			Values: manifest.ValueRefsOf(manifest.ValueRef{File: 1000, Bytes: 64 << 20})})
		size *= 10
	}
	tables = append(tables,
		&manifest.Table{Level: last, Smallest: []byte("b"), Largest: []byte("n"), Size: 64 << 20},
		&manifest.Table{Level: last, Smallest: []byte("p"), Largest: []byte("z"), Size: 64 << 20})
	s := Shape{BaseSizeMin: 64 << 20, RunsMax: 4, ValuesMin: 1 << 20, Damaged: map[base.FileNum]bool{base.FileNum(runs + 2): true}}
	return shaped(tables...), s
}

func TestDamaged_StuckTablesAreNoDebt(t *testing.T) {
	t.Parallel()
	v, s := overDamage(5)
	if debt := Debt(v, s); debt != 0 {
		t.Errorf("writers are slowed down for %d bytes that cannot be merged", debt)
	}
	if n := NewestValues(v, s); n != 0 {
		t.Errorf("and for what %d bytes of values replace", n)
	}
	s.Damaged = nil
	if debt, n := Debt(v, s), NewestValues(v, s); debt == 0 || n == 0 {
		t.Errorf("without damage: %d bytes of debt, %d of values", debt, n)
	}

	above := shaped(
		&manifest.Table{Level: 5, Smallest: []byte("a"), Largest: []byte("m"), Size: 64 << 20},
		&manifest.Table{Level: last, Smallest: []byte("b"), Largest: []byte("n"), Size: 64 << 20})
	for damaged, owed := range map[base.FileNum]bool{1: false, 2: false, 3: true} {
		s.Damaged = map[base.FileNum]bool{damaged: true}
		if debt := Debt(above, s); debt > 0 != owed {
			t.Errorf("a level too many, table %d damaged: %d bytes of debt", damaged, debt)
		}
	}
}

// The size of stuck tables must not cause every small flush beside them to be merged into
// the last level at once.
func TestDamaged_StuckTablesMakeNothingElseUrgent(t *testing.T) {
	t.Parallel()
	v, s := overDamage(5)
	if p, ok := Pick(v, s); ok {
		t.Errorf("picked %s", p.String())
	}
	s.Damaged = nil
	if _, ok := Pick(v, s); !ok {
		t.Error("nothing is due without damage")
	}
}

func TestDamaged_StuckRunsAreMergedWithEachOther(t *testing.T) {
	t.Parallel()
	v, s := overDamage(5)
	for _, table := range v.Levels[0] {
		table.Size = 10 << 10
	}
	p, ok := Pick(v, s)
	if !ok || p.OutputLevel != 0 || len(p.Inputs[0]) != 6 || p.Bottom {
		t.Errorf("picked %s, bottom %t", p.String(), p.Bottom)
	}
	s.RunsMax = 6
	if p, ok := Pick(v, s); ok {
		t.Errorf("of runs that are not too many: picked %s", p.String())
	}
}

// Small runs above a damaged table of level 0 are merged, but not together with older runs:
// their versions would come above those of the damaged table.
func TestDamaged_SmallRunsAreMergedAboveItOnly(t *testing.T) {
	t.Parallel()
	const runs = 20
	for damaged := range runs {
		var tables []*manifest.Table
		for i := range runs {
			tables = append(tables, &manifest.Table{Run: uint64(runs - i), Smallest: []byte("a"), Largest: []byte("m"), Size: 1 << 20})
		}
		tables[damaged].Smallest, tables[damaged].Largest = []byte("f"), []byte("z")
		tables = append(tables, &manifest.Table{Level: last, Smallest: []byte("a"), Largest: []byte("z"), Size: 64 << 20})
		s := Shape{BaseSizeMin: 8 << 20, TableSize: 32 << 20, RunsMax: 4, Damaged: map[base.FileNum]bool{base.FileNum(damaged + 1): true}}
		p, ok := newPicker(shaped(tables...), s).mergeSmallRuns()
		if want := damaged >= 4; ok != want || len(p.Inputs[0]) > min(damaged, 8) {
			t.Errorf("damage in run %d from the top: picked %s, %t", damaged, p.String(), ok)
		}
	}
}

// An output of a merge on both sides of a damaged table must not lie over it, however few
// bytes it has.
func TestDamaged_OutputsEndBeforeIt(t *testing.T) {
	t.Parallel()
	tr := newTree(Shape{Idle: true, RunsMax: 1, Screens: true}, 1)
	tr.v.Levels[last] = []*manifest.Table{tr.add(last, 0, 0, tr.random(2, func(i int) uint64 { return uint64(50 + i) }))}
	tr.s.Damaged = map[base.FileNum]bool{1: true}
	for run := range uint64(2) { // a filter keeps them from being moved
		for _, at := range []uint64{90, 10} { // each run has a table on each side
			m := tr.add(0, run+1, 0, tr.random(2, func(i int) uint64 { return at + uint64(i) }))
			tr.v.Levels[0] = append([]*manifest.Table{m}, tr.v.Levels[0]...)
		}
	}
	tr.advance()
	tr.settle(t)
	if n := len(tr.v.Levels[last]); n != 3 || len(tr.v.Levels[0]) > 0 {
		t.Errorf("%d tables in the last level and %d in level 0, want one on each side of the damaged one", n, len(tr.v.Levels[0]))
	}
}
