package jobs

import (
	"maps"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/tree"
)

// hiddenKeys has a sample of the keys of memtables. It says how many bytes each of them hides
// below, times the number of keys that it stands for.
type hiddenKeys map[string]int64

func (h hiddenKeys) bytes() (sum int64) {
	for _, n := range h {
		sum += n
	}
	return sum
}

// lookAt adds a sample of the keys of t. A deleted key hides its older value. A key with a
// new value hides as much as the older one is longer. Unreadable data counts as nothing.
func (j *Jobs) lookAt(v *tree.View, t *memtable.Table, found hiddenKeys) {
	_ = fault.Guard(func() error {
		if n := t.Deletions(); n > 0 {
			every, passed := 1+n/deletionsSamples, uint64(0)
			t.DeletedKeys(func(key []byte) bool {
				if passed++; passed%every == 0 {
					j.lookUp(v, t, key, true, every, found)
				}
				return true
			})
		}
		if n := uint64(t.Len()); n > t.Deletions() && j.o.VersionsMax() <= 1 {
			// The hash chooses, so a key counts once, however often it was written.
			every := 1 + n/deletionsSamples
			seen := map[uint32]bool{}
			t.Newer(0, func(hash uint32, r memtable.Ref) bool {
				if uint64(hash)%every == 0 && !seen[hash] {
					seen[hash] = true
					j.lookUp(v, t, t.Key(r), false, every, found)
				}
				return true
			})
		}
		return nil
	})
}

// lookUp adds what a key of t hides, times every, if it is deleted as the caller expects. A
// partial entry hides nothing.
func (j *Jobs) lookUp(v *tree.View, t *memtable.Table, key []byte, deleted bool, every uint64, found hiddenKeys) {
	hash := base.Hash(key, j.o.HashSeed)
	newer, m, _, ok := t.Get(key, hash, base.SeqNumMax)
	if gone := !ok || m.Kind == base.KindDelete; gone != deleted || m.Kind.Partial() {
		return
	}
	left := entryBytes(key, newer, m)
	older, m, _, ok, err := v.Get(key, hash, base.SeqNumMax, nil)
	if !ok || err != nil {
		return
	}
	if bytes := entryBytes(key, older, m); bytes > left {
		found[string(key)] = int64(every) * (bytes - left)
	}
}

// hiddenIn looks at memtables that are being flushed, and returns how many bytes the tables
// made of them hide. The pickers would take long values among short ones for short.
func (j *Jobs) hiddenIn(memtables []*memtable.Table, tables []*manifest.Table) map[base.FileNum]int64 {
	slot, held, err := j.store.HoldView()
	if err != nil {
		return nil // Close flushes
	}
	defer j.store.Release(slot)
	found := hiddenKeys{}
	for _, t := range memtables {
		j.lookAt(held.Tree, t, found)
	}
	hides := map[base.FileNum]int64{}
	for key, n := range found {
		if i := slices.IndexFunc(tables, func(t *manifest.Table) bool { return t.Contains([]byte(key)) }); i >= 0 {
			hides[tables[i].Num] += n
		}
	}
	return hides
}

// keepHidden keeps what tables of level 0 hide while they are there. A merge of runs of level
// 0 ends that, because it frees what one of them hides in another. A cut shares out what its
// table hides among the pieces, by their size. Only Installed calls keepHidden.
func (j *Jobs) keepHidden(edit *manifest.Edit) {
	known, flushed := j.hidden.Load(), j.flushHides.Load()
	next := map[base.FileNum]int64{}
	maps.Copy(next, *known)
	for _, place := range edit.DropTables {
		delete(next, place.Num)
	}
	if cutsOne(edit) {
		size := int64(0)
		for _, t := range edit.AddTables {
			size += t.Size
		}
		hides := float64((*known)[edit.DropTables[0].Num]) / float64(max(size, 1))
		for _, t := range edit.AddTables {
			next[t.Num] = int64(hides * float64(t.Size))
		}
	}
	for _, t := range edit.AddTables {
		if n := (*flushed)[t.Num]; n > 0 && t.Level == 0 {
			next[t.Num] = n
		}
	}
	j.hidden.Store(&next)
}

// cutsOne reports whether an edit only replaces one table of level 0 by others of level 0.
func cutsOne(edit *manifest.Edit) bool {
	return len(edit.DropTables) == 1 && edit.DropTables[0].Level == 0 &&
		!slices.ContainsFunc(edit.AddTables, func(t *manifest.Table) bool { return t.Level > 0 })
}
