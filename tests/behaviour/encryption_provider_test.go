package behaviour

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A slowKeys is a provider that does not answer while it is down, such as a key service
// behind a broken network. It ignores its context.
type slowKeys struct {
	stoat.KeyProvider
	down  atomic.Bool
	up    chan struct{}
	asked atomic.Int64
}

func (k *slowKeys) Key(ctx context.Context, id string) ([]byte, error) {
	if k.down.Load() {
		k.asked.Add(1)
		<-k.up
	}
	return k.KeyProvider.Key(ctx, id)
}

// An old data key is good enough while the provider does not answer.
func TestEncryption_AProviderThatDoesNotAnswerStopsNothing(t *testing.T) {
	t.Parallel()
	keys := &slowKeys{KeyProvider: testkit.Keys, up: make(chan struct{})}
	defer close(keys.up)
	clock := testkit.NewClock()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Keys: keys, Clock: clock})
	testkit.Must(t, err)
	set := func(i int) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 1000)) })
	}
	testkit.Must(t, set(0))
	clock.Ms.Add(31 * 24 * 3600 * 1000) // data keys are renewed after 30 days
	keys.down.Store(true)
	ended := make(chan error, 1)
	go func() {
		for i := range 2000 {
			if err := set(i); err != nil {
				ended <- err
				return
			}
		}
		ended <- db.Close()
	}()
	select {
	case err := <-ended:
		testkit.Must(t, err)
	case <-time.After(time.Minute):
		t.Fatalf("the commits or Close wait for the provider, which was asked %d times", keys.asked.Load())
	}
	if n := keys.asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times within a minute, want once", n)
	}
}
