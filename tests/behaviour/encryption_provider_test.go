package behaviour

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// A provider that never answers is asked one thing at a time, however long that lasts.
func TestEncryption_AProviderThatDoesNotAnswerIsAskedOnce(t *testing.T) {
	t.Parallel()
	keys := &slowKeys{KeyProvider: testkit.Keys, up: make(chan struct{})}
	defer close(keys.up)
	clock := testkit.NewClock()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), Keys: keys, Clock: clock})
	testkit.Must(t, err)
	clock.Ms.Add(31 * 24 * 3600 * 1000)
	keys.down.Store(true)
	for i := range 3 {
		testkit.SetKeys(t, db, i, i+1, 100, 'x')
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		clock.Ms.Add(3600 * 1000)
	}
	testkit.Must(t, db.Close())
	if n := keys.asked.Load(); n != 1 {
		t.Errorf("%d goroutines wait for the provider, want 1", n)
	}
}

// A follower needs its provider again when the writer has made a new data key.
func TestEncryption_AFollowerDoesNotWaitForAProviderThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk, clock := memfs.New(), testkit.NewClock()
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Keys: testkit.Keys, Clock: clock})
		testkit.Must(t, err)
		keys := &slowKeys{KeyProvider: testkit.Keys, up: make(chan struct{})}
		f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, Keys: keys, FollowEvery: -1})
		testkit.Must(t, err)
		clock.Ms.Add(31 * 24 * 3600 * 1000)
		testkit.SetKeys(t, db, 0, 10, 100, 'x')
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		keys.down.Store(true)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			testkit.WantError(t, "Refresh", f.Refresh(ctx), context.DeadlineExceeded)
			go func() { _ = f.Refresh(t.Context()) }()
			synctest.Wait()
			began := time.Now()
			testkit.Must(t, f.Close())
			if waited := time.Since(began); waited != 0 {
				t.Errorf("Close has waited %v", waited)
			}
		}()
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			t.Error("Refresh or Close waits for the provider")
		}
		close(keys.up)
		<-ended
		testkit.Must(t, db.Close())
	})
}

// awaitedKeys is a provider whose current key is awaited until the context is done.
type awaitedKeys struct {
	stoat.KeyProvider
	down    atomic.Bool
	once    sync.Once
	awaited chan struct{} // closed when Current waits
}

func (k *awaitedKeys) Current(ctx context.Context) (string, []byte, error) {
	if k.down.Load() {
		k.once.Do(func() { close(k.awaited) })
		<-ctx.Done()
		return "", nil, ctx.Err()
	}
	return k.KeyProvider.Current(ctx)
}

// While RotateMasterKey waits for the provider, nothing else does, and Close ends it.
func TestEncryption_OnlyTheRotationWaitsForTheCurrentKey(t *testing.T) {
	t.Parallel()
	keys := &awaitedKeys{KeyProvider: testkit.Keys, awaited: make(chan struct{})}
	disk := memfs.New()
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Keys: keys})
	testkit.Must(t, err)
	keys.down.Store(true)
	rotation, ended := make(chan error, 1), make(chan struct{})
	go func() { rotation <- db.RotateMasterKey(t.Context()) }()
	<-keys.awaited
	go func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		testkit.WantError(t, "a second rotation", db.RotateMasterKey(ctx), context.DeadlineExceeded)
		testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("a checkpoint, or another rotation, waits for the provider")
	}
	testkit.Must(t, db.Close())
	<-ended
	testkit.WantError(t, "the rotation", <-rotation, stoat.ErrClosed)
}
