package stoat

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/work"
)

// mustFlush flushes what is in memory.
func mustFlush(t *testing.T, db *DB) {
	t.Helper()
	mustOK(t, db.commits.Rotate(true))
	_, err := db.jobs.FlushNext()
	mustOK(t, err)
}

// mergeAll takes all tables to the last level, so that garbage is known. Values
// stay where they are.
func mergeAll(db *DB) error {
	step := func() (due bool, err error) {
		db.jobs.Compacting.Lock()
		defer db.jobs.Compacting.Unlock()
		shape := db.jobs.Shape(work.Busy, db.store.Horizon())
		plan, due := compact.PickRange(db.store.Version(), shape, compact.Range{UpTo: base.SeqNumMax})
		if due {
			err = db.jobs.Run(plan, db.group.Err, nil)
		}
		return due, err
	}
	for {
		if due, err := step(); !due || err != nil {
			return err
		}
	}
}
