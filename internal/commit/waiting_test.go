package commit

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/place"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/work"
)

func TestWaiting_AnAsyncRequestBehindALongQueueEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Store: new(state.Store), Space: space.New(space.Options{})})
		c.asyncBytes = asyncMax
		ctx, cancel := context.WithCancel(t.Context())
		done, returned := make(chan error, 1), make(chan struct{})
		began := time.Now()
		go func() {
			c.Expect()
			c.SubmitAsync(ctx, SyncRequest(), func() {}, func(_ base.SeqNum, err error) { done <- err })
			close(returned)
		}()
		synctest.Wait()
		select {
		case <-returned:
			t.Fatal("SubmitAsync does not wait")
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
		<-returned
		if _, waiting := c.InFlight(); waiting > 0 {
			t.Errorf("%d requests wait in the queue", waiting)
		}
		c.Drain() // the callback has ended
	})
}

// A signal to lead may come after another leader has taken the request of its receiver.
// Its commit may be done already, so it must not wait for memory.
func TestWaiting_ALeaderWhoseRequestIsTakenDoesNotWait(t *testing.T) {
	t.Parallel()
	store := newStore()
	defer store.Abandon()
	c := New(Options{Store: store, MemtableSize: storeMemtable})
	full := state.Fill{Waiting: 3, WaitingBytes: 1 << 30}
	c.Bind(throttle.New(throttle.Options{
		MemtableSize: storeMemtable, Group: work.NewGroup(&work.Executor{}), Report: func(any) {},
		Failed: c.Failed, Flush: func() {}, Fill: func() state.Fill { return full },
	}))
	own := SyncRequest() // it is not in the queue
	own.leading = true
	c.leaders = 1
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if c.lead(ctx, own) || ctx.Err() != nil {
		t.Errorf("the leader waits until %v", ctx.Err())
	}
	if c.leaders != 0 || own.leading {
		t.Errorf("%d leaders are left", c.leaders)
	}
}

// An ingest that commits its tables holds leaders up. A leader whose context ends meanwhile
// gives up, as its followers in the queue can.
func TestWaiting_ALeaderBehindAnIngestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		defer store.Abandon()
		c := New(Options{Store: store, Space: space.New(space.Options{}), MemtableSize: storeMemtable})
		c.Bind(throttle.New(throttle.Options{
			MemtableSize: storeMemtable, Group: work.NewGroup(&work.Executor{}), Report: func(any) {},
			Failed: c.Failed, Flush: func() {}, Fill: func() state.Fill { return state.Fill{} },
		}))
		held, release := make(chan struct{}), make(chan struct{})
		go func() {
			c.ingesting.Lock()
			defer c.ingesting.Unlock()
			close(held)
			<-release
		}()
		<-held
		defer close(release)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Submit(ctx, SyncRequest()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want %v", err, context.DeadlineExceeded)
		}
		if _, waiting := c.InFlight(); waiting > 0 || c.leaders != 0 {
			t.Errorf("%d requests wait in the queue, with %d leaders", waiting, c.leaders)
		}
	})
}

// A callback of CommitAsync may end its goroutine, as testing.T.FailNow does. The other
// callbacks come all the same, and Close does not wait for ever.
func TestReport_CallsTheOthersWhenACallbackEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Store: new(state.Store)})
		const n = 5
		c.async = n
		called := 0 // one callback runs at a time
		var outcomes []outcome
		for i := range n {
			outcomes = append(outcomes, outcome{done: func(base.SeqNum, error) {
				called++
				if i%2 == 0 {
					runtime.Goexit()
				}
			}})
		}
		go c.report(outcomes)
		c.Drain()
		synctest.Wait()
		if called != n {
			t.Errorf("%d callbacks were called, want %d", called, n)
		}
	})
}

// The read set of an async request stays in memory as long as its writes.
func TestWaiting_AnAsyncRequestCountsWhatItsTransactionHasRead(t *testing.T) {
	t.Parallel()
	store := newStore()
	defer store.Abandon()
	c := New(Options{Store: store, Streams: new(place.Streams)})
	c.leaders = groupsMax // the request waits
	w := c.NewWriteSet()
	for i := range uint64(100_000) {
		w.Reads.AddKey([]byte("a key of 24 bytes, again"), (i+1)*0x9e3779b97f4a7c15)
	}
	r := w.Request(0, false)
	r.done, r.end = func(base.SeqNum, error) {}, func() { c.FreeWriteSet(w) }
	if _, err := c.enqueue(r); err != nil {
		t.Fatal(err)
	}
	if c.asyncBytes < 100_000*(24+8) {
		t.Errorf("the request counts %d bytes", c.asyncBytes)
	}
	c.endAsync([]*Request{r})
	if c.asyncBytes != 0 {
		t.Errorf("%d bytes are left when it has ended", c.asyncBytes)
	}
}
