package stoat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A longWalk is a database with one value file that is half garbage. What is live
// in the file takes a walk over all tables.
type longWalk struct {
	t    *testing.T
	db   *DB
	disk *faultfs.FS
}

// walkTables is about how many bytes the tables of a longWalk have.
const walkTables = 2000 * (4 << 10)

func newLongWalk(t *testing.T) *longWalk {
	t.Helper()
	const keys, keyLen, values = 2000, walkTables / 2000, 40
	w := &longWalk{t: t, disk: faultfs.New(memfs.New())}
	var err error
	w.db, err = openWith("/db", &Options{FS: w.disk}, work.Executor{Manual: true})
	mustOK(t, err)
	update := func(n int, write func(tx Txn, i int) error) {
		t.Helper()
		mustOK(t, w.db.Update(func(tx Txn) (err error) {
			for i := 0; i < n && err == nil; i++ {
				err = write(tx, i)
			}
			return err
		}))
		mustFlush(t, w.db)
	}
	apart := func(i int) []byte { return fmt.Appendf(nil, "%06d.0", i*keys/values) }
	update(keys, func(tx Txn, i int) error {
		return tx.Set(fmt.Appendf(nil, "%06d-%0*d", i, keyLen, i), []byte("in the table"))
	})
	update(values, func(tx Txn, i int) error { return tx.Set(apart(i), bytes.Repeat([]byte{byte(i)}, 1000)) })
	update(values/2, func(tx Txn, i int) error { return tx.Delete(apart(2*i + 1)) })
	mustOK(t, mergeAll(w.db))
	if n := len(w.db.engine.Store.Version().Values); n != 1 {
		t.Fatalf("%d value files, want 1", n)
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
	if after > walkTables/4 {
		w.t.Errorf("%d bytes of tables were read after the collection was to end", after)
	}
	return err
}

// A walk over tables that may be as large as the tree finds what is live in a value
// file.
func TestCollect_EndsWithItsContextWhileItLooksForLiveValues(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.stopped(cancel, func() error { return w.db.Collect(ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Collect says %v", err)
	}
	mustOK(t, w.db.Close())
}

func TestClose_DoesNotWaitForTheWalkOfACollection(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	closed := make(chan error, 1)
	err := w.stopped(func() {
		go func() { closed <- w.db.Close() }()
		<-w.db.engine.Group.Stopped().Done()
	}, func() error {
		if !w.db.engine.Group.Enter() {
			t.Fatal("the group has ended before the collection began")
		}
		defer w.db.engine.Group.Leave()
		_, err := w.db.engine.Collector.Step()
		return err
	})
	if !errors.Is(err, work.ErrStopped) {
		t.Errorf("the collector says %v", err)
	}
	mustOK(t, <-closed)
}
