package behaviour

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A table may have a value that expires long after all others, or a version of a keyspace with
// timestamps, which the engine never takes for expired. The space of the others comes back all
// the same.
func TestExpiry_GivesSpaceBackBesideAValueThatLivesLonger(t *testing.T) {
	t.Parallel()
	for name, long := range map[string]time.Duration{"none": 0, "30 days": 30 * 24 * time.Hour, "10 years": 10 * 365 * 24 * time.Hour} {
		for _, timed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, timestamps %t", name, timed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { expireBeside(t, long, timed) })
			})
		}
	}
}

func expireBeside(t *testing.T, long time.Duration, timed bool) {
	t.Helper()
	db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20})
	testkit.Must(t, err)
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	const keys = 2000
	for i := range keys {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return tx.Set(fmt.Appendf(nil, "key-%04d", i), make([]byte, 3000), stoat.TTL(time.Hour))
		}))
	}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		if timed {
			if err := tx.In(ks).At(1).Set([]byte("a"), []byte("v"), stoat.TTL(time.Hour)); err != nil {
				return err
			}
		}
		if long == 0 {
			return nil
		}
		return tx.Set([]byte("key-1000a"), []byte("v"), stoat.TTL(long))
	}))
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if n := db.Stats().ValueBytes; n < keys*3000 {
		t.Errorf("%d bytes of values before they expire", n)
	}
	time.Sleep(24 * time.Hour)
	if n := db.Stats().ValueBytes; n > 1<<20 {
		t.Errorf("value files have %d bytes, 23 hours after the values expired", n)
	}
	testkit.Must(t, db.Close())
}
