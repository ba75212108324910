package steps

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A contended database is one whose updates have met a conflict, so that they read what is
// applied. From hold on, no group gets on before let.
type contended struct {
	t      *testing.T
	db     *inside.DB
	faults *faultfs.FS
	held   atomic.Bool
	gate   chan struct{}
}

func newContended(t *testing.T) *contended {
	c := &contended{t: t, faults: faultfs.New(memfs.New()), gate: make(chan struct{})}
	db, err := inside.Open("/db", &stoat.Options{FS: c.faults}, work.Executor{Manual: true, Reach: func(p work.Point) {
		if p == work.PointApplied && c.held.Load() {
			<-c.gate
		}
	}})
	testkit.Must(t, err)
	c.db = db
	met := false
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		if err := add(tx); err != nil || met {
			return err
		}
		met = true
		return db.Update(add)
	}, stoat.Retries(1)))
	return c
}

func (c *contended) hold() { c.held.Store(true) }

func (c *contended) let() {
	c.held.Store(false)
	close(c.gate)
}

// add adds 1 to a counter.
func add(tx stoat.Txn) error {
	n, err := count(tx)
	if err != nil {
		return err
	}
	return tx.Set([]byte("counter"), []byte(strconv.Itoa(n+1)))
}

func count(tx stoat.Txn) (int, error) {
	v, err := tx.Get([]byte("counter"))
	if errors.Is(err, stoat.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(v))
}

// visible returns the counter as a View sees it.
func (c *contended) visible() (n int) {
	testkit.Must(c.t, c.db.View(func(tx stoat.Txn) (err error) { n, err = count(tx); return err }))
	return n
}

// A result is what became of an update.
type result struct {
	saw  int // the counter
	err  error
	done bool
}

func (r *result) String() string {
	if !r.done {
		return fmt.Sprintf("%d waits", r.saw)
	}
	return fmt.Sprintf("%d %v", r.saw, r.err)
}

// start runs an update that sees the counter and then does fn.
func (c *contended) start(ctx context.Context, fn func(tx stoat.Txn) error) *result {
	r := new(result)
	go func() {
		r.err = c.db.UpdateContext(ctx, func(tx stoat.Txn) (err error) {
			if r.saw, err = count(tx); err != nil {
				return err
			}
			return fn(tx)
		}, stoat.Retries(1))
		r.done = true
	}()
	synctest.Wait()
	return r
}

var errDecided = errors.New("decided")

// ways are ways to end an update that has read the counter, and what they return.
var ways = map[string]struct {
	fn   func(tx stoat.Txn) error
	want string
}{
	"a commit":            {add, "<nil>"},
	"an error":            {func(stoat.Txn) error { return errDecided }, errDecided.Error()},
	"no writes":           {func(stoat.Txn) error { return nil }, "<nil>"},
	"a Discard":           {func(tx stoat.Txn) error { tx.Discard(); return nil }, stoat.ErrTxnDone.Error()},
	"a Commit of nothing": {func(tx stoat.Txn) error { return tx.Commit() }, stoat.ErrTxnDone.Error()},
	"a CommitAsync of nothing": {func(tx stoat.Txn) error {
		done := make(chan error, 1)
		tx.CommitAsync(func(_ uint64, err error) { done <- err })
		return <-done
	}, stoat.ErrTxnDone.Error()},
}

func TestEarly_NoResultLeavesBeforeWhatItReadIsDurable(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		synctest.Test(t, func(t *testing.T) {
			c := newContended(t)
			before := c.visible()
			c.hold()
			first := c.start(t.Context(), add)
			second := c.start(t.Context(), add)
			r := c.start(t.Context(), way.fn)
			if got, want := fmt.Sprint(first, second, r), fmt.Sprintf("%d waits %d waits %d waits", before, before+1, before+2); got != want {
				t.Errorf("%s: updates that saw %s, want %s", name, got, want)
			}
			if n := c.visible(); n != before {
				t.Errorf("%s: a View saw %d, want %d", name, n, before)
			}
			c.let()
			synctest.Wait()
			if got, want := fmt.Sprint(first, second, r), fmt.Sprintf("%d <nil> %d <nil> %d %s", before, before+1, before+2, way.want); got != want {
				t.Errorf("%s: updates that saw %s, want %s", name, got, want)
			}
			testkit.Must(t, c.db.Close())
		})
	}
}

func TestEarly_EverythingThatDependsOnAFailedSyncFails(t *testing.T) {
	t.Parallel()
	for name, way := range ways {
		for _, fate := range []vfs.SyncFate{vfs.SyncDropped, vfs.SyncKept} {
			synctest.Test(t, func(t *testing.T) {
				c := newContended(t)
				before := c.visible()
				c.hold()
				all := []*result{c.start(t.Context(), add), c.start(t.Context(), add), c.start(t.Context(), way.fn)}
				c.faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatLog, Sync: fate})
				c.let()
				synctest.Wait()
				for i, r := range all {
					// After Discard and Commit within it, the function got the error itself.
					if !r.done || !errors.Is(r.err, stoat.ErrFailed) {
						t.Errorf("%s: update %d: %v, want stoat.ErrFailed", name, i, r)
					}
				}
				if n := c.visible(); n != before {
					t.Errorf("%s: a View saw %d, want %d", name, n, before)
				}
				if err := c.db.Close(); !errors.Is(err, stoat.ErrFailed) {
					t.Error(err)
				}
			})
		}
	}
}

// The writes of an update are on their way when its context ends.
func TestEarly_AContextDoesNotEndTheWaitForOwnWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t)
		c.hold()
		first := c.start(t.Context(), add)
		ctx, cancel := context.WithCancel(t.Context())
		second := c.start(ctx, add)
		cancel()
		synctest.Wait()
		if second.done {
			t.Errorf("an update that is applied ended with %v", second.err)
		}
		c.let()
		synctest.Wait()
		if !first.done || !second.done || first.err != nil || second.err != nil {
			t.Errorf("%v, %v", first, second)
		}
		testkit.Must(t, c.db.Close())
	})
}

// panics starts an update that reads the count, calls before unless it is nil, and panics with
// the count. It returns when the update waits. The panic comes through told.
func (c *contended) panics(before func()) (told chan any) {
	told = make(chan any, 1)
	go func() {
		defer func() { told <- recover() }()
		_ = c.db.Update(func(tx stoat.Txn) error {
			n, err := count(tx)
			if err != nil {
				return err
			}
			if before != nil {
				before()
			}
			panic(n)
		}, stoat.Retries(1))
	}()
	synctest.Wait()
	return told
}

func TestEarly_APanicOfTheFunctionLeavesAfterWhatItRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t)
		c.hold()
		first := c.start(t.Context(), add)
		told := c.panics(nil)
		if len(told) > 0 {
			t.Error("the panic told what is not durable")
		}
		c.let()
		if p := <-told; p != first.saw+1 {
			t.Errorf("the panic told %v, want %d", p, first.saw+1)
		}
		synctest.Wait()
		testkit.Must(t, c.db.Close())
	})
}

// Close has begun, and waits for the group that has what the function read.
func TestEarly_APanicBesideCloseLeavesAfterWhatItRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t)
		c.hold()
		first := c.start(t.Context(), add)
		closing := make(chan struct{})
		told := c.panics(func() { <-closing })
		closed := make(chan error, 1)
		go func() { closed <- c.db.Close() }()
		synctest.Wait()
		close(closing)
		synctest.Wait()
		if len(told) > 0 || len(closed) > 0 {
			t.Errorf("before the commit is durable, %d panics and %d results of Close are told", len(told), len(closed))
		}
		c.let()
		if p := <-told; p != first.saw+1 {
			t.Errorf("the panic told %v, want %d", p, first.saw+1)
		}
		testkit.Must(t, <-closed)
	})
}

// Tables join the database while nothing is in memory. Updates that are applied, and have
// no group yet, are in memory.
func TestEarly_AnIngestWaitsForAppliedUpdates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t)
		c.hold()
		all := []*result{c.start(t.Context(), add), c.start(t.Context(), add)}
		ingested := make(chan error, 1)
		go func() {
			entries := func(yield func(k, v []byte) bool) { yield([]byte("ingested"), nil) }
			_, err := c.db.Ingest(t.Context(), entries, stoat.IngestOptions{})
			ingested <- err
		}()
		synctest.Wait()
		all = append(all, c.start(t.Context(), add))
		c.let()
		for len(ingested) == 0 { // no goroutine flushes
			synctest.Wait()
			_, err := c.db.Engine.Jobs.FlushNext()
			testkit.Must(t, err)
		}
		testkit.Must(t, <-ingested)
		synctest.Wait()
		for i, r := range all {
			if !r.done || r.err != nil {
				t.Errorf("update %d: %v", i, r)
			}
		}
		testkit.Must(t, c.db.Close())
	})
}

func TestEarly_AMarkDoesNotSplitTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newContended(t)
		before := c.visible()
		c.hold()
		all := []*result{c.start(t.Context(), add), c.start(t.Context(), add)}
		c.db.Engine.Commits.Mark()
		testkit.Must(t, c.db.Engine.Commits.Rotate(false))
		all = append(all, c.start(t.Context(), add))
		c.let()
		synctest.Wait()
		for i, r := range all {
			if !r.done || r.err != nil || r.saw != before+i {
				t.Errorf("update %d: %v", i, r)
			}
		}
		testkit.Must(t, c.db.Close())
		db, err := inside.Open("/db", &stoat.Options{FS: c.faults}, work.Executor{Manual: true})
		testkit.Must(t, err)
		c.db = db
		if n := c.visible(); n != before+3 {
			t.Errorf("the counter is %d after Open, want %d", n, before+3)
		}
		testkit.Must(t, db.Close())
	})
}
