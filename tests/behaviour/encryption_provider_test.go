package behaviour

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A slowKeys is a provider that does not answer while it is down, such as a key service
// behind a broken network.
type slowKeys struct {
	stoat.KeyProvider
	down  atomic.Bool
	up    chan struct{}
	asked atomic.Int64
}

func (k *slowKeys) Key(ctx context.Context, id string) ([]byte, error) {
	if k.down.Load() {
		k.asked.Add(1)
		select {
		case <-k.up:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return k.KeyProvider.Key(ctx, id)
}

// An old data key is good enough while the provider does not answer.
func TestEncryption_AProviderThatDoesNotAnswerStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := &slowKeys{KeyProvider: testkit.Keys, up: make(chan struct{})}
		clock := testkit.NewClock()
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Keys: keys, Clock: clock})
		testkit.Must(t, err)
		set := func(i int) error {
			return db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 1000)) })
		}
		testkit.Must(t, set(0))
		clock.Ms.Add(31 * 24 * 3600 * 1000) // data keys are renewed after 30 days
		keys.down.Store(true)
		var commits atomic.Int64
		go func() {
			for i := range 2000 {
				if set(i) != nil {
					return
				}
				commits.Add(1)
			}
		}()
		time.Sleep(5 * time.Second)
		if commits.Load() < 2000 {
			t.Errorf("after 5 s, %d of 2000 commits have ended; the provider was asked %d times", commits.Load(), keys.asked.Load())
		}
		closed := make(chan struct{})
		go func() { _ = db.Close(); close(closed) }()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Error("Close hangs, too")
		}
		close(keys.up)
		<-closed
	})
}
