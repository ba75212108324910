package stoat

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/vfs"
)

// What is live in a value file is found by a walk over tables that may be as large
// as the tree.
func TestCollectEndsWithItsContextWhileItLooksForWhatIsLive(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.stopped(cancel, func() error { return w.db.Collect(ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Collect says %v", err)
	}
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseDoesNotWaitForTheWalkOfACollection(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	closed := make(chan error, 1)
	err := w.stopped(func() {
		go func() { closed <- w.db.Close() }()
		<-w.db.background.stopped.Done()
	}, func() error {
		if !w.db.background.enter() {
			t.Fatal("the work has ended before it began")
		}
		defer w.db.background.running.Done()
		return w.db.collectStep()
	})
	if !errors.Is(err, errStopped) {
		t.Errorf("the collector says %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
}

// A longWalk is a database with a value file that is half garbage, and a table
// that refers to it and takes many reads to go through.
type longWalk struct {
	t    *testing.T
	db   *DB
	disk *vfs.Faults
}

// longWalkReads is about how many bytes those are.
const longWalkReads = 8 << 20

func newLongWalk(t *testing.T) *longWalk {
	t.Helper()
	w := &longWalk{t: t, disk: vfs.NewFaults(vfs.NewMem())}
	var err error
	if w.db, err = openDriven("/db", &Options{FS: w.disk}, still{}); err != nil {
		t.Fatal(err)
	}
	if err := w.db.Update(func(tx *Txn) error {
		const long = 4 << 10
		for i := range longWalkReads / long {
			if err := tx.Set(fmt.Appendf(nil, "key-%06d-%0*d", i, long, i), []byte("in the table")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := leaveGarbage(w.db, "key"); err != nil {
		t.Fatal(err)
	}
	return w
}

// stopped runs a collection and calls stop when it has begun to read tables. It
// fails if much is read of them after that.
func (w *longWalk) stopped(stop func(), collect func() error) error {
	w.t.Helper()
	before, after := int64(0), int64(0)
	w.disk.Observe(func(op vfs.Op) {
		if op.Kind != vfs.OpRead || op.Category != vfs.CatTable {
			return
		}
		if before += op.Len; before < 1<<20 {
			return
		}
		if stop != nil {
			stop()
			stop = nil
			return
		}
		after += op.Len
	})
	err := collect()
	w.disk.Observe(nil)
	if stop != nil {
		w.t.Fatalf("%d bytes of tables were read in all", before)
	}
	if after > longWalkReads/4 {
		w.t.Errorf("%d bytes of tables were read after the end was wanted", after)
	}
	return err
}
