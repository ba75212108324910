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
	mustOK(t, db.engine.Commits.Rotate(true))
	_, err := db.engine.Jobs.FlushNext()
	mustOK(t, err)
}

// mergeAll takes all tables to the last level, so that garbage is known. Values
// stay where they are.
func mergeAll(db *DB) error {
	step := func() (due bool, err error) {
		db.engine.Jobs.Compacting.Lock()
		defer db.engine.Jobs.Compacting.Unlock()
		shape := db.engine.Jobs.Shape(work.Busy, db.engine.Store.Horizon())
		plan, due := compact.PickRange(db.engine.Store.Version(), shape, compact.Range{UpTo: base.SeqNumMax})
		if due {
			err = db.engine.Jobs.Run(plan, db.engine.Group.Err, nil)
		}
		return due, err
	}
	for {
		if due, err := step(); !due || err != nil {
			return err
		}
	}
}
