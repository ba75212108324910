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
	e.space.Look()
	write := func(from, n int, value []byte, m base.Meta) {
		for i := from; i < from+n; i += 100 {
			e.update(func(w *commit.WriteSet) {
				w.Adds = m.Kind == base.KindSet
				for j := range 100 {
					key := fmt.Appendf(nil, "%08x", uint32(i+j)*0x9e3779b1)
					e.must(w.Pending.Set(key, value, base.Hash(key, e.seed), m, 0))
				}
			})
			_, err := e.jobs.FlushNext() // or commits would wait for it
			e.must(err)
		}
		e.flush()
	}
	const keys = 2000
	for range 2 {
		write(0, keys, make([]byte, 300), base.Meta{Kind: base.KindSet})
	}
	write(left, keys-left, nil, base.Meta{Kind: base.KindDelete})
	plan := compact.Plan{Reason: compact.ReasonDeletions, OutputLevel: 6, Bottom: true}
	plan.Inputs = e.store.Version().Levels
	return e, plan
}

func TestMeasure_TellsWhatAMergeWouldWriteWithoutWriting(t *testing.T) {
	t.Parallel()
	for _, left := range []int{0, 500} {
		e, plan := fullOfDeleted(t, left)
		e.jobs.Compacting.Lock()
		before := e.disk.UsedBytes()
		bytes, err := e.jobs.measure(&plan, 1<<30)
		e.must(err)
		if used := e.disk.UsedBytes(); used != before {
			t.Errorf("%d bytes were written", used-before)
		}
		some, err := e.jobs.measure(&plan, bytes/2)
		e.must(err)
		if bytes > 0 && some <= bytes/2 {
			t.Errorf("of %d bytes, more than half, %d are measured", bytes, some)
		}
		e.must(e.jobs.Run(plan, e.group.Err, nil))
		e.jobs.Compacting.Unlock()
		if tables := e.tableBytes(); blocks(tables) != bytes || bytes > 0 != (left > 0) {
			t.Errorf("%d bytes were measured, and tables take %d", bytes, tables)
		}
	}
}

// The compactor does not measure again what did not fit before something has changed,
// and then it does.
func TestMeasure_AColumnOfTablesIsMeasuredOnceAsLongAsNothingChanges(t *testing.T) {
	t.Parallel()
	e, _ := fullOfDeleted(t, 1000)
	reader, err := e.store.Acquire()
	e.must(err)
	e.disk.SetCapacity(e.disk.UsedBytes() + 256<<10)
	e.space.Look()
	e.update(func(w *commit.WriteSet) {
		key := base.FirstKey
		e.must(w.Pending.Set(key, nil, base.Hash(key, e.seed), base.Meta{Kind: base.KindDeleteRange}, 0))
	})
	e.flush()
	due := func() bool {
		t.Helper()
		e.jobs.Compacting.Lock()
		defer e.jobs.Compacting.Unlock()
		v, s := e.store.Version(), e.jobs.Shape(work.Idle, e.store.Horizon())
		due, err := e.jobs.tidyColumn(v, &s)
		e.must(err)
		return due
	}
	tables := e.tableBytes()
	if !due() {
		t.Fatal("a column that may go is not looked at")
	}
	if e.tableBytes() < tables {
		t.Fatal("what a snapshot needs was given back")
	}
	if due() || !e.space.Lacking() {
		t.Error("it is looked at again, or no job looks for room")
	}
	e.disk.SetCapacity(e.disk.UsedBytes() + 320<<10)
	e.space.Look()
	if !due() || due() {
		t.Error("with more room it is not looked at, or twice")
	}
	e.store.Release(reader)
	if !due() {
		t.Error("the snapshot has ended, and it is not looked at")
	}
	if left := e.tableBytes(); left > 0 {
		t.Errorf("%d bytes of tables are left of nothing", left)
	}
}
