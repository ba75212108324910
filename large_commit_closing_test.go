package stoat

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/commit"
)

// A commit whose transaction began before Close may come to its large values after
// Close has ended the background jobs.
func TestLargeCommit_BeginsNoValueFileOnceCloseHasEndedTheJobs(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	tx, err := db.Begin(ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Set([]byte("large"), make([]byte, 2*commit.ApartMin(db.opts.MemtableSize))); err != nil {
		t.Fatal(err)
	}
	db.engine.Group.End()
	if err := tx.Commit(); !errors.Is(err, ErrClosed) {
		t.Errorf("commit: %v, want %v", err, ErrClosed)
	}
	names, err := db.engine.Store.FS().List(db.engine.Store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, ok := base.ParseValueName(name); ok {
			t.Errorf("there is %s", name)
		}
	}
}
