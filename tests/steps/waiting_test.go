package steps

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A gated database holds groups up once they are applied, one gate for each, in
// their order, and lets all through that come later.
type gated struct {
	gates   []chan struct{}
	groups  atomic.Int64
	arrived chan struct{}
}

// newGated returns so many gates, all closed.
func newGated(gates int) *gated {
	g := &gated{arrived: make(chan struct{})}
	for range gates {
		g.gates = append(g.gates, make(chan struct{}))
	}
	return g
}

func (g *gated) at(p work.Point) {
	if p != work.PointApplied {
		return
	}
	if n := int(g.groups.Add(1)) - 1; n < len(g.gates) {
		g.arrived <- struct{}{}
		<-g.gates[n]
	}
}

// open opens a database with the gates.
func (g *gated) open(t *testing.T, opts *stoat.Options) *inside.DB {
	t.Helper()
	db, err := inside.Open("/db", opts, work.Executor{Manual: true, Reach: g.at})
	testkit.Must(t, err)
	return db
}

func TestWaiting_OnlyATransactionThatReadHoldsASnapshot(t *testing.T) {
	t.Parallel()
	set := func(tx stoat.Txn) error { return tx.Set([]byte("k"), []byte("v")) }
	for holds, fn := range []func(tx stoat.Txn) error{
		set,
		func(tx stoat.Txn) error {
			if _, err := tx.Get([]byte("k")); !errors.Is(err, stoat.ErrNotFound) {
				return err
			}
			return tx.Set([]byte("other"), []byte("w"))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			gate := newGated(1)
			db := gate.open(t, &stoat.Options{FS: memfs.New()})
			done := make(chan error, 2)
			for range gate.gates {
				go func() { done <- db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("first"), nil) }) }()
				<-gate.arrived
			}
			go func() { done <- db.Update(fn) }()
			synctest.Wait() // a group that syncs is in flight, so no other small one may be built
			if got := db.Engine.Store.Readers(); got != holds {
				t.Errorf("the transaction held %d snapshots, want %d", got, holds)
			}
			for _, g := range gate.gates {
				close(g)
			}
			for range cap(done) {
				testkit.Must(t, <-done)
			}
			testkit.Must(t, db.Close())
		})
	}
}

func TestWaiting_CommitAsyncOfLargeValuesEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openStill(t)
		ctx, cancel := context.WithCancel(t.Context())
		tx, err := db.BeginContext(ctx, stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Set([]byte("k"), make([]byte, 4<<20)))
		db.Engine.Throttle.SetDebt(1<<40, throttle.Use{})
		db.Engine.Throttle.Charge(1 << 30)
		done, returned := make(chan error, 1), make(chan struct{})
		began := time.Now()
		go func() {
			tx.CommitAsync(func(_ uint64, err error) { done <- err })
			close(returned)
		}()
		synctest.Wait()
		select {
		case <-returned:
			t.Fatal("CommitAsync does not wait")
		default:
		}
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			if !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
				t.Errorf("it ends after %v with %v", time.Since(began), err)
			}
		default:
			t.Error("it waits on when its context has ended")
		}
		db.Engine.Throttle.SetDebt(0, throttle.Use{})
		<-returned
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			if ok, err := tx.Has([]byte("k")); ok || err != nil {
				t.Errorf("the key is there: %t, %v", ok, err)
			}
			return nil
		}))
	})
}

// The leader that the last async commit brought takes only the one before it,
// since the two are more than a group. The one that brought it must not count as one
// that a leader has already.
func TestWaiting_AnAsyncCommitThatItsOwnLeaderLeavesBehindIsLedByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, leadAnotherGroup)
}

func leadAnotherGroup(t *testing.T) {
	gate := newGated(3)
	db := gate.open(t, &stoat.Options{FS: memfs.New(), Durability: stoat.Buffered, LargeValueThreshold: 64 << 20})
	done := make(chan error, 8)
	commit := func(key string, size int) {
		tx, err := db.Begin(stoat.ReadWrite)
		testkit.Must(t, err)
		testkit.Must(t, tx.Set([]byte(key), make([]byte, size)))
		tx.CommitAsync(func(_ uint64, err error) { done <- err })
	}

	// Four small ones make a group, which alone is in flight.
	commit("first", 1)
	<-gate.arrived
	commit("second", 1)
	<-gate.arrived
	for i := range 4 {
		commit(fmt.Sprint(i), 1)
	}
	close(gate.gates[0])
	<-gate.arrived
	close(gate.gates[1])
	synctest.Wait() // one group is in flight, and the queue is empty

	commit("not worth leading", 3<<20)
	commit("worth leading", 3<<20)
	synctest.Wait() // two groups are in flight, and a commit waits
	close(gate.gates[2])
	for range 8 {
		select {
		case err := <-done:
			testkit.Must(t, err)
		case <-time.After(time.Minute):
			t.Fatal("a commit waits for a leader that never comes")
		}
	}
	testkit.Must(t, db.Close())
}

// A flusher that looked again and again would take a core until the device has synced.
func TestWaiting_TheFlusherWaitsForAGroupThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	gate := newGated(1)
	db := gate.open(t, &stoat.Options{FS: memfs.New(), LargeValueThreshold: 64 << 20})
	done := make(chan error, 1)
	go func() {
		// As much in the log as is worth a flush in idleness.
		done <- db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), make([]byte, 2<<20)) })
	}()
	<-gate.arrived
	for range 2 { // the first puts the memtable aside
		db.Woken(db.Engine.Workers.Flusher)
		_, err := db.Engine.Jobs.FlushStep()
		testkit.Must(t, err)
	}
	v := db.Engine.Store.View()
	if len(v.Memtables) != 2 || v.Memtables[1].LastSeq() <= db.Engine.Store.Visible() {
		t.Fatalf("there are %d memtables, and everything up to %d is visible", len(v.Memtables), db.Engine.Store.Visible())
	}
	if db.Woken(db.Engine.Workers.Flusher) {
		t.Error("the flusher wakes itself although there is nothing that it can flush")
	}
	close(gate.gates[0])
	testkit.Must(t, <-done)
	if !db.Woken(db.Engine.Workers.Flusher) {
		t.Error("the flusher is not told that there is something to flush")
	}
	due, err := db.Engine.Jobs.FlushNext()
	testkit.Must(t, err)
	if !due {
		t.Error("nothing is flushed")
	}
	testkit.Must(t, db.Close())
}

// A small commit takes little of the log, and much more memory until it has ended. So
// CommitAsync bounds the memory, while the device or a callback is slow.
func TestWaiting_CommitAsyncBoundsTheMemoryOfSmallCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := newGated(1)
		db := gate.open(t, &stoat.Options{FS: memfs.New()})
		const commits, most = 20_000, 64 << 20 / (6 << 10)
		var begun, ended atomic.Int64
		go func() {
			for i := range commits {
				tx, err := db.Begin(stoat.ReadWrite)
				if err == nil {
					err = tx.Set(fmt.Appendf(nil, "%d", i), nil)
				}
				if err != nil {
					t.Error(err)
					return
				}
				begun.Add(1)
				tx.CommitAsync(func(_ uint64, err error) {
					if err != nil {
						t.Error(err)
					}
					ended.Add(1)
				})
			}
		}()
		<-gate.arrived // the first group does not end
		synctest.Wait()
		if n := begun.Load(); n > most+1 {
			t.Errorf("%d commits are under way, want %d at most", n, most)
		}
		close(gate.gates[0])
		synctest.Wait()
		if n := ended.Load(); n != commits {
			t.Errorf("%d of %d commits have ended", n, commits)
		}
		testkit.Must(t, db.Close())
	})
}

// A callback of CommitAsync may take long. Meanwhile the transaction holds no snapshot any more.
func TestWaiting_ASlowCallbackHoldsNoSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := newGated(0).open(t, &stoat.Options{FS: memfs.New()})
		finish, commits := make(chan struct{}), 10
		for i := range commits {
			tx, err := db.Begin(stoat.ReadWrite)
			testkit.Must(t, err)
			if _, err := tx.Has(fmt.Appendf(nil, "read %d", i)); err != nil {
				t.Error(err)
			}
			testkit.Must(t, tx.Set(fmt.Appendf(nil, "%d", i), nil))
			tx.CommitAsync(func(version uint64, err error) {
				<-finish
				if version == 0 || err != nil {
					t.Errorf("version %d, %v", version, err)
				}
			})
		}
		synctest.Wait()
		if n := db.Stats().Readers; n != 0 {
			t.Errorf("%d snapshots are held", n)
		}
		close(finish)
		testkit.Must(t, db.Close())
	})
}

// On a full disk, each attempt to flush writes much. The flusher tries again by its timer, or
// when there is more space.
func TestFlush_ACommitDoesNotRepeatAFailedOne(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(memfs.New())
	db := openStillWith(t, &stoat.Options{FS: faults, MemtableSize: 1 << 20})
	put := func() (woken bool) {
		t.Helper()
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }))
		return db.Woken(db.Engine.Workers.Flusher)
	}
	put()
	testkit.Must(t, db.Engine.Commits.Rotate(true))
	if !put() {
		t.Error("a commit beside a full memtable does not wake the flusher")
	}
	faults.Add(faultfs.Rule{Category: vfs.CatTable, Op: vfs.OpCreate, Forever: true})
	if _, err := db.Engine.Jobs.FlushNext(); err == nil {
		t.Fatal("the flush has not failed")
	}
	for range 3 {
		if put() {
			t.Error("a commit wakes the flusher although the last flush failed")
		}
	}
	faults.Clear()
	_, err := db.Engine.Jobs.FlushNext()
	testkit.Must(t, err)
	testkit.Must(t, db.Engine.Commits.Rotate(true))
	if !put() {
		t.Error("a commit does not wake the flusher after a flush that succeeded")
	}
}
