package behaviour

import (
	"context"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// An unhurriedKeys is a provider that takes its time, unless its context ends before.
type unhurriedKeys struct {
	stoat.KeyProvider
	takes time.Duration
}

func (k *unhurriedKeys) Key(ctx context.Context, id string) ([]byte, error) {
	select {
	case <-time.After(k.takes):
		return k.KeyProvider.Key(ctx, id)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// No file waits for a slow provider for long. Its answer serves a later file.
func TestEncryption_DataKeysAreRenewedAlthoughTheProviderIsSlow(t *testing.T) {
	t.Parallel()
	disk, clock := memfs.New(), testkit.NewClock()
	keys := &unhurriedKeys{KeyProvider: testkit.Keys}
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk, Keys: keys, Clock: clock})
	testkit.Must(t, err)
	keys.takes = 2 * time.Second
	before := testkit.FilesOf(t, disk, testkit.Dir)["KEYS"]
	clock.Ms.Add(31 * 24 * 3600 * 1000) // data keys are renewed after 30 days
	for deadline := time.Now().Add(30 * time.Second); testkit.FilesOf(t, disk, testkit.Dir)["KEYS"] == before; {
		if time.Now().After(deadline) {
			t.Fatal("the data key is still the old one")
		}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 1000)) }))
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // makes a file
		clock.Ms.Add(61 * 1000)
		time.Sleep(time.Second)
	}
	testkit.Must(t, db.Close())
}
