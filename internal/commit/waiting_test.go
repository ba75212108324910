package commit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/space"
	"github.com/stoatdb/stoat/internal/state"
)

func TestWaiting_AnAsyncRequestBehindALongQueueEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New(Options{Store: new(state.Store), Space: space.New(space.Options{})})
		c.bytes = queueBytes
		ctx, cancel := context.WithCancel(t.Context())
		done, returned := make(chan error, 1), make(chan struct{})
		began := time.Now()
		go func() {
			c.SubmitAsync(ctx, SyncRequest(), func(_ base.SeqNum, err error) { done <- err })
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
