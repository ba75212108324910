package jobs

import (
	"encoding/binary"
	"errors"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// No metadata tells how much a merge writes: some tombstones are of the same key, and
// others hide nothing. That does not matter where the inputs fit in the free space.
// Elsewhere the compactor attempts the merge if the estimate fits. A merge that finds
// no room stops above the flush reserve and deletes its files. The compactor then
// attempts other merges.
//
// Deletions give their space back in the end, for these reasons:
//
//   - Tombstones reach tables: jobs leave the flush reserve.
//   - A merge of a whole column of tables (compact.Columns) leaves only what can be
//     read. When everything is deleted, that is nothing, which fits.
//   - The compactor repeats a failed merge when there is more room, when a snapshot has
//     ended that needed its entries, and after an hour. A change of its tables makes it
//     another merge.

// attempts are the merges that found no room.
type attempts struct {
	some   atomic.Bool             // whether failed has any
	failed map[mergeKey]*failedTry // guarded by Compacting
	denied bool                    // the last Tidy refused a plan; guarded by Compacting
}

// A mergeKey identifies a merge. It has a hash of the tables and the level, whether a
// snapshot may need hidden entries, and whether nothing is below.
type mergeKey struct {
	tables       uint64
	held, bottom bool
}

// A failedTry is an attempt that failed.
type failedTry struct {
	room int64 // bytes that it might write
	at   int64 // of work.Now
}

func keyOf(plan *compact.Plan, s *compact.Shape) mergeKey {
	var numbers []byte
	key := mergeKey{bottom: plan.Bottom}
	for _, t := range plan.Tables() {
		numbers = binary.LittleEndian.AppendUint64(numbers, uint64(t.Num))
		key.held = key.held || t.LargestSeq > s.OldestSnapshot
	}
	key.tables = base.Hash(numbers, uint64(plan.OutputLevel))
	return key
}

// useless reports whether another attempt would fail like the one before. The caller
// holds Compacting.
func (a *attempts) useless(plan *compact.Plan, s *compact.Shape) bool {
	if len(a.failed) == 0 {
		return false
	}
	try, ok := a.failed[keyOf(plan, s)]
	if !ok || space.MuchMore(s.OutputMax, try.room) || work.Now()-try.at >= int64(space.RetryMax) {
		return false
	}
	a.denied = true
	return true
}

// note remembers a merge that found no room. The caller holds Compacting.
func (a *attempts) note(plan *compact.Plan, s *compact.Shape) {
	invariant.Check(!a.useless(plan, s), "attempted again although nothing changed: %s", plan.String())
	if a.failed == nil {
		a.failed = map[mergeKey]*failedTry{}
	}
	a.failed[keyOf(plan, s)] = &failedTry{room: s.OutputMax, at: work.Now()}
	a.some.Store(true)
}

// attempt runs a plan that was picked for s. If a merge finds no room, and nothing told
// how much it would write, attempt notes that and returns nil. The caller holds
// Compacting.
func (j *Jobs) attempt(plan *compact.Plan, s *compact.Shape) error {
	err := j.Run(*plan, j.space.Sparing(j.stopped), nil)
	switch inputs := plan.InputBytes(); {
	case plan.Drop || plan.Move:
	case inputs <= s.OutputMax:
		j.space.MergeEnded(inputs, err)
	case errors.Is(err, vfs.ErrNoSpace) && j.store.EditErr() == nil:
		j.attempts.note(plan, s)
		return nil // the compactor goes on with other merges
	}
	return err
}

// attemptColumn merges a whole column of tables, if nothing else frees what its
// tombstones hide. It reports whether it attempted one. The caller holds Compacting.
func (j *Jobs) attemptColumn(v *manifest.Version, s *compact.Shape) (due bool, err error) {
	for _, plan := range compact.Columns(v, *s) {
		if !j.attempts.useless(&plan, s) {
			return true, j.attempt(&plan, s)
		}
	}
	if !j.attempts.denied { // no failure matters any more
		clear(j.attempts.failed)
		j.attempts.some.Store(false)
	}
	return false, nil
}
