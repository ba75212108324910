package jobs

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/work"
)

// fullOfDeleted returns a database on a small disk, of whose keys only the first
// ones are left, and the plan that merges all of its tables.
func fullOfDeleted(t *testing.T, left int) (*engine, compact.Plan) {
	t.Helper()
	e := newEngine(t, 256<<10)
	e.disk.SetCapacity(8 << 20)
	e.Space.Look()
	write := func(from, n int, value []byte, m base.Meta) {
		for i := from; i < from+n; i += 100 {
			e.Update(func(w *commit.WriteSet) {
				w.Adds = m.Kind == base.KindSet
				for j := range 100 {
					key := fmt.Appendf(nil, "%08x", uint32(i+j)*0x9e3779b1)
					e.Must(w.Pending.Set(key, value, base.Hash(key, e.HashSeed), m, 0))
				}
			})
			_, err := e.jobs.FlushNext() // or commits would wait for it
			e.Must(err)
		}
		e.Flush()
	}
	const keys = 2000
	for range 2 {
		write(0, keys, make([]byte, 300), base.Meta{Kind: base.KindSet})
	}
	write(left, keys-left, nil, base.Meta{Kind: base.KindDelete})
	plan := compact.Plan{Reason: compact.ReasonDeletions, OutputLevel: 6, Bottom: true}
	plan.Inputs = e.Store.Version().Levels
	return e, plan
}

// The files of a failed attempt would otherwise take the room that others need.
func TestAttempt_AMergeThatFindsNoRoomLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	e, plan := fullOfDeleted(t, 1000)
	e.jobs.Compacting.Lock()
	defer e.jobs.Compacting.Unlock()
	e.disk.SetCapacity(e.disk.UsedBytes() + 256<<10)
	e.Space.Look()
	before, tables := e.disk.UsedBytes(), e.tableBytes()
	s := e.jobs.Shape(work.Idle, e.Store.Horizon())
	e.Must(e.jobs.attempt(&plan, &s))
	if used := e.disk.UsedBytes(); used != before || e.tableBytes() != tables {
		t.Errorf("%d bytes were used before and %d after, tables took %d and take %d", before, used, tables, e.tableBytes())
	}
	if !e.jobs.attempts.useless(&plan, &s) {
		t.Error("the merge would be attempted again at once")
	}
}

// The compactor does not repeat what did not fit before something has changed, and then
// it does.
func TestAttempt_AColumnOfTablesIsAttemptedOnceAsLongAsNothingChanges(t *testing.T) {
	t.Parallel()
	e, _ := fullOfDeleted(t, 1000)
	reader, err := e.Store.Acquire()
	e.Must(err)
	e.disk.SetCapacity(e.disk.UsedBytes() + 256<<10)
	e.Space.Look()
	e.Update(func(w *commit.WriteSet) {
		key := base.FirstKey
		e.Must(w.Pending.Set(key, nil, base.Hash(key, e.HashSeed), base.Meta{Kind: base.KindDeleteRange}, 0))
	})
	e.Flush()
	e.disk.SetCapacity(e.disk.UsedBytes() + 256<<10) // the flush gave spare segments of the log back
	e.Space.Look()
	due := func() bool {
		t.Helper()
		e.jobs.Compacting.Lock()
		defer e.jobs.Compacting.Unlock()
		v, s := e.Store.Version(), e.jobs.Shape(work.Idle, e.Store.Horizon())
		due, err := e.jobs.attemptColumn(v, &s)
		e.Must(err)
		return due
	}
	tables := e.tableBytes()
	if !due() {
		t.Fatal("a column that may go is not attempted")
	}
	if e.tableBytes() < tables {
		t.Fatal("what a snapshot needs was given back")
	}
	if due() || !e.Space.Lacking() {
		t.Error("it is attempted again, or no job looks for room")
	}
	e.disk.SetCapacity(e.disk.UsedBytes() + 320<<10)
	e.Space.Look()
	if !due() || due() {
		t.Error("with more room it is not attempted, or twice")
	}
	e.Store.Release(reader)
	if !due() {
		t.Error("the snapshot has ended, and it is not attempted")
	}
	if left := e.tableBytes(); left > 0 {
		t.Errorf("%d bytes of tables are left of nothing", left)
	}
}
