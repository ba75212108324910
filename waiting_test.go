package stoat

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/vfs/memfs"
)

func mustOK(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestOnlyATransactionThatReadHoldsASnapshotWhileItWaits(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	for holds, fn := range []func(tx *Txn) error{
		func(tx *Txn) error { return tx.Set([]byte("k"), []byte("v")) },
		func(tx *Txn) error {
			if _, err := tx.Get([]byte("k")); err != nil {
				return err
			}
			return tx.Set([]byte("k"), []byte("w"))
		},
	} {
		db.commits.build.Lock() // nobody's group is built
		done := make(chan error, 1)
		go func() { done <- db.Update(fn) }()
		for !db.commits.busy() {
			runtime.Gosched()
		}
		got := db.readers.Active()
		db.commits.build.Unlock()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if got != holds {
			t.Errorf("the transaction held %d snapshots, want %d", got, holds)
		}
	}
}

func TestCommitAsyncEndsWithItsContextWhileItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := openStill(t)
		c := &db.commits
		for what, wait := range map[string]struct{ begin, end func() }{
			"behind a long queue": {
				func() { c.mu.Lock(); c.bytes += queueBytes; c.mu.Unlock() },
				func() { c.mu.Lock(); c.shrunkLocked(queueBytes); c.mu.Unlock() },
			},
			"to write large values": {
				func() { db.admission.nsPerKiB.Store(int64(time.Second)); db.admission.owe(int64(time.Minute)) },
				func() { db.admission.nsPerKiB.Store(0); db.admission.forgive() },
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			tx, err := db.BeginContext(ctx, ReadWrite)
			mustOK(t, err)
			mustOK(t, tx.Set([]byte("k"), make([]byte, 4<<20)))
			wait.begin()
			done, returned := make(chan error, 1), make(chan struct{})
			began := time.Now()
			go func() {
				tx.CommitAsync(func(err error) { done <- err })
				close(returned)
			}()
			synctest.Wait()
			select {
			case <-returned:
				t.Fatalf("%s: CommitAsync does not wait", what)
			default:
			}
			cancel()
			synctest.Wait()
			select {
			case err := <-done:
				if !errors.Is(err, context.Canceled) || time.Since(began) > 0 {
					t.Errorf("%s: it ends after %v with %v", what, time.Since(began), err)
				}
			default:
				t.Errorf("%s: it waits on when its context has ended", what)
			}
			wait.end()
			<-returned
		}
		mustOK(t, db.View(func(tx *Txn) error {
			if ok, err := tx.Has([]byte("k")); ok || err != nil {
				t.Errorf("the key is there: %t, %v", ok, err)
			}
			return nil
		}))
	})
}

// A gated driver holds groups up once they are applied, one gate for each, in
// their order, and lets all through that come later.
type gated struct {
	gates   []chan struct{}
	groups  atomic.Int64
	arrived chan struct{}
}

func (g *gated) at(p point) {
	if p != pointApplied {
		return
	}
	if n := int(g.groups.Add(1)) - 1; n < len(g.gates) {
		g.arrived <- struct{}{}
		<-g.gates[n]
	}
}

// The leader that the last async commit brought takes only the one before it,
// since the two are more than a group. The one that brought it must not be taken
// for one that somebody leads already.
func TestAnAsyncCommitThatItsOwnLeaderLeavesBehindIsLedByAnother(t *testing.T) {
	t.Parallel()
	gate := &gated{gates: []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}, arrived: make(chan struct{})}
	db, err := openDriven("/db", &Options{FS: memfs.New(), Durability: Buffered, LargeValueThreshold: 64 << 20}, gate)
	mustOK(t, err)
	done := make(chan error, 8)
	commit := func(key string, size int) {
		tx, err := db.Begin(ReadWrite)
		mustOK(t, err)
		mustOK(t, tx.Set([]byte(key), make([]byte, size)))
		tx.CommitAsync(func(err error) { done <- err })
	}
	until := func(cond func(c *committer) bool) {
		for c := &db.commits; ; runtime.Gosched() {
			c.mu.Lock()
			ok := cond(c)
			c.mu.Unlock()
			if ok {
				return
			}
		}
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
	until(func(c *committer) bool { return c.leaders == 1 })

	commit("not worth leading", 3<<20)
	commit("worth leading", 3<<20)
	until(func(c *committer) bool { return len(c.queue) == 1 })
	close(gate.gates[2])
	until(func(c *committer) bool { return c.leaders == 0 })
	if n := len(db.commits.queue); n > 0 {
		t.Fatalf("%d commits wait and nobody leads", n)
	}
	for range 8 {
		mustOK(t, <-done)
	}
	mustOK(t, db.Close())
}

// To look again and again would take a core until the device has synced.
func TestTheFlusherWaitsForAGroupThatIsOnItsWay(t *testing.T) {
	t.Parallel()
	gate := &gated{gates: []chan struct{}{make(chan struct{})}, arrived: make(chan struct{})}
	db, err := openDriven("/db", &Options{FS: memfs.New(), LargeValueThreshold: 64 << 20}, gate)
	mustOK(t, err)
	done := make(chan error, 1)
	go func() {
		// As much in the log as is worth a flush in idleness.
		done <- db.Update(func(tx *Txn) error { return tx.Set([]byte("key"), make([]byte, 2*idleLogMin)) })
	}()
	<-gate.arrived
	woken := db.background.flusher.work
	for range 2 { // the first puts the memtable aside
		for len(woken) > 0 {
			<-woken
		}
		_, err := db.idleFlush()
		mustOK(t, err)
	}
	if v := db.view.Load(); len(v.tables) != 2 || db.flushable(v) < 2 {
		t.Fatalf("there are %d memtables, those from number %d on can be flushed", len(v.tables), db.flushable(v))
	}
	if len(woken) > 0 {
		t.Error("the flusher wakes itself although there is nothing that it can flush")
	}
	close(gate.gates[0])
	mustOK(t, <-done)
	if len(woken) == 0 {
		t.Error("nobody tells the flusher that there is something to flush")
	}
	due, err := db.flushNext()
	mustOK(t, err)
	if !due {
		t.Error("nothing is flushed")
	}
	mustOK(t, db.Close())
}
