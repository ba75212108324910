package steps

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An endlessReader gives bytes without end, and calls do before.
type endlessReader struct{ do func() }

func (r endlessReader) Read(b []byte) (int, error) {
	r.do()
	return len(b), nil
}

// An operation is a method that takes a context and may go on for long. One that
// calls back calls during.
type operation func(ctx context.Context, db *inside.DB, during func()) error

// waiting are the operations that wait for others, DropAll for a flush and the rest
// for their turn. calling are those that call back.
var (
	waiting = map[string]operation{
		"Compact": func(ctx context.Context, db *inside.DB, _ func()) error {
			return db.Compact(ctx, stoat.CompactOptions{})
		},
		"Collect":    func(ctx context.Context, db *inside.DB, _ func()) error { return db.Collect(ctx) },
		"Free":       func(ctx context.Context, db *inside.DB, _ func()) error { return db.Engine.Manual.Free(ctx, nil, nil) },
		"Checkpoint": func(ctx context.Context, db *inside.DB, _ func()) error { return db.Checkpoint(ctx, "/copy") },
		"DropAll":    func(ctx context.Context, db *inside.DB, _ func()) error { return db.DropAll(ctx) },
	}
	calling = map[string]operation{
		"Check": func(ctx context.Context, db *inside.DB, during func()) error {
			_, err := db.Check(ctx, stoat.CheckOptions{Progress: func(stoat.CheckProgress) { during() }})
			return err
		},
		"SetReader": func(ctx context.Context, db *inside.DB, during func()) error {
			return db.UpdateContext(ctx, func(tx stoat.Txn) error {
				return tx.SetReader([]byte("key"), endlessReader{during})
			})
		},
	}
)

// endEach begins each operation in databases of its own where other operations are
// at work: in one a merge, a collection and a checkpoint, in another only the latter
// two. It calls end when the operation waits or calls back, and said with what the
// operation returns then.
func endEach(t *testing.T, operations map[string]operation, end func(*inside.DB, context.CancelCauseFunc), said func(name string, err error)) {
	for name, op := range operations {
		for _, merging := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) { endOne(t, name, op, merging, end, said) })
		}
	}
}

// endOne is endEach for one operation in one database.
func endOne(t *testing.T, name string, op operation, merging bool, end func(*inside.DB, context.CancelCauseFunc), said func(name string, err error)) {
	copying := &interposer{point: work.PointCopy}
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: copying.at})
	testkit.Must(t, err)
	for range 2 {
		flushKey(t, db, "key")
	}
	copied, goOn := make(chan error, 1), make(chan bool)
	copying.do = func() {
		copying.do = nil
		<-goOn
	}
	go func() { copied <- db.Checkpoint(context.Background(), "/other") }()
	synctest.Wait()
	if merging {
		db.Engine.Jobs.Compacting.Lock()
	}
	db.Engine.Collector.Collecting.Lock()

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	got := make(chan error, 1)
	go func() { got <- op(ctx, db, func() { end(db, cancel) }) }()
	synctest.Wait()
	end(db, cancel)
	synctest.Wait()
	select {
	case err := <-got:
		said(name, err)
	default:
		t.Errorf("%s goes on", name)
	}
	db.Engine.Collector.Collecting.Unlock()
	if merging {
		db.Engine.Jobs.Compacting.Unlock()
	}
	goOn <- true
	if err := <-copied; err != nil && !errors.Is(err, stoat.ErrClosed) {
		t.Error(err)
	}
	testkit.Must(t, db.Close())
}

// An errgroup ends the contexts of all with the error of one of them as the cause.
// It tells the others nothing about their own databases.
func TestOperation_CancelledWithACauseReturnsTheErrorOfItsContext(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{stoat.ErrCorrupt, stoat.ErrClosed, stoat.ErrConflict} {
		cancelling := func(_ *inside.DB, cancel context.CancelCauseFunc) { cancel(cause) }
		for _, operations := range []map[string]operation{waiting, calling} {
			endEach(t, operations, cancelling, func(name string, err error) {
				if !errors.Is(err, context.Canceled) || errors.Is(err, cause) {
					t.Errorf("%s, cancelled because of %v: %v", name, cause, err)
				}
			})
		}
	}
}

func TestOperation_ThatWaitsForOthersEndsWithTheDatabase(t *testing.T) {
	t.Parallel()
	closing := func(db *inside.DB, _ context.CancelCauseFunc) {
		go db.Close() // it waits for the operation; its error is looked at when the test ends
	}
	endEach(t, waiting, closing, func(name string, err error) {
		if !errors.Is(err, stoat.ErrClosed) {
			t.Errorf("%s of a database that is being closed: %v", name, err)
		}
	})
}

// openFlushingSlowly opens a database whose flushes take a second each. The first fails.
func openFlushingSlowly(t *testing.T) *inside.DB {
	t.Helper()
	faults := faultfs.New(memfs.New())
	faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatTable, Err: vfs.ErrNoSpace})
	faults.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpCreate && op.Category == vfs.CatTable {
			time.Sleep(time.Second)
		}
	})
	db, err := inside.Open("db", &stoat.Options{FS: faults, MemtableSize: 256 << 10, Durability: stoat.Buffered}, work.Executor{})
	testkit.Must(t, err)
	return db
}

// A caller is not told of the failure of a flush that began before the call: the
// reason may be over.
func TestFlush_UnderWayThatFailsIsNotTheErrorOfALaterCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openFlushingSlowly(t)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) }))
		first := make(chan error)
		go func() { first <- db.Compact(t.Context(), stoat.CompactOptions{}) }()
		time.Sleep(time.Second / 2)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		if err := <-first; !errors.Is(err, stoat.ErrNoSpace) {
			t.Errorf("the caller that asked before is told %v, want %v", err, stoat.ErrNoSpace)
		}
		testkit.Must(t, db.Close())
	})
}

func TestFlush_UnderWayThatFailsIsNotTheErrorOfACommitThatWaitsForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openFlushingSlowly(t)
		for n := range 2000 {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(fmt.Append(nil, n), make([]byte, 1000)) }))
			if n == 300 {
				synctest.Wait() // more than a memtable is there, and the flush has begun
			}
		}
		if waits, _ := db.Engine.Throttle.Waits(); waits == 0 {
			t.Error("no commit has waited")
		}
		testkit.Must(t, db.Close())
	})
}
