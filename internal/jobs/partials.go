package jobs

import (
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/state"
)

// partialAbove returns compact.Rules.Above for a plan, or for a flush if it is nil. It
// looks at the newest view. While a job runs, a flush may bring partial entries from a
// memtable to level 0, where they still count. What is committed after the job began needs
// nothing that had expired before.
func (j *Jobs) partialAbove(plan *compact.Plan) func(key []byte) bool {
	var of *manifest.Version
	var above [][]*manifest.Table
	inTables := func(v *manifest.Version, key []byte) bool {
		if plan != nil && v != of {
			of, above = v, runsAbove(v, plan)
		}
		return slices.ContainsFunc(above, func(run []*manifest.Table) bool { return inRun(run, key) })
	}
	return func(key []byte) bool {
		if v, without := withoutPartials(j.store.View); without {
			return inTables(v.Tree.Version, key)
		}
		slot, v, err := j.store.HoldView()
		if err != nil {
			return true // the database is closing, and the next one finds out
		}
		defer j.store.Release(slot)
		hash := base.Hash(key, j.o.HashSeed)
		return inTables(v.Tree.Version, key) ||
			slices.ContainsFunc(v.Memtables, func(t *memtable.Table) bool { return t.HasPartial(key, hash) })
	}
}

// withoutPartials returns the newest view, and reports whether no memtable in it has partial
// entries. Its caller holds no slot, so the flusher may release a memtable of the view
// meanwhile. That memtable forgets its partial entries, but then a newer view has its table.
func withoutPartials(newest func() *state.View) (v *state.View, without bool) {
	v = newest()
	return v, !slices.ContainsFunc(v.Memtables, hasPartials) && newest() == v
}

func hasPartials(t *memtable.Table) bool {
	_, _, keys := t.Partials()
	return keys > 0
}

// runsAbove returns the tables with partial entries that may hold newer versions of the keys
// of a plan. The tables of a run or of a level are one list, in key order. Below level 0, a
// table of the output level that is no input has no keys of the plan.
func runsAbove(v *manifest.Version, plan *compact.Plan) (runs [][]*manifest.Table) {
	lo, hi, hiExclusive := plan.Bounds()
	for level := range max(1, plan.OutputLevel) {
		var run []*manifest.Table
		for _, t := range v.Overlapping(level, lo, hi, hiExclusive) {
			if t.Partials == 0 || slices.Contains(plan.Inputs[level], t) {
				continue
			}
			if len(run) > 0 && run[0].Run != t.Run {
				runs, run = append(runs, run), nil
			}
			run = append(run, t)
		}
		if len(run) > 0 {
			runs = append(runs, run)
		}
	}
	return runs
}

// inRun reports whether key lies within the bounds of a table of a run.
func inRun(run []*manifest.Table, key []byte) bool {
	i := sort.Search(len(run), func(i int) bool { return !run[i].EndsBefore(key) })
	return i < len(run) && !run[i].StartsAfter(key)
}
