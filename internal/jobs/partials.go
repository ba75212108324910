package jobs

import (
	"slices"

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
	var above []*manifest.Table
	inTables := func(v *manifest.Version, key []byte) bool {
		if plan != nil && v != of {
			of, above = v, tablesAbove(v, plan)
		}
		return slices.ContainsFunc(above, func(t *manifest.Table) bool { return t.Contains(key) })
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

// tablesAbove returns the tables with partial entries that may be newer than the inputs of
// a plan.
func tablesAbove(v *manifest.Version, plan *compact.Plan) (above []*manifest.Table) {
	for level, tables := range v.Levels[:plan.OutputLevel+1] {
		for _, t := range tables {
			if t.Partials > 0 && !slices.Contains(plan.Inputs[level], t) {
				above = append(above, t)
			}
		}
	}
	return above
}
