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
	db, ks := openTimed(t, 1<<20)
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
	if long > 0 {
		wantKey(t, db, "key-1000a", "v")
	}
	testkit.Must(t, db.Close())
}

// All versions of a keyspace with timestamps expire. Their values go, with or without a Compact
// after that. Then an idle database rests.
func TestExpiry_GivesSpaceBackOfVersionsWithTimestamps(t *testing.T) {
	t.Parallel()
	for _, c := range []timedExpiry{{}, {discard: true}, {compact: true}, {discard: true, compact: true}, {slow: true},
		{long: true}, {long: true, slow: true}, {long: true, compact: true}} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { expireTimed(t, c) })
		})
	}
}

type timedExpiry struct {
	discard bool // DiscardBelow rises above all versions
	compact bool // Compact runs after the expiry
	slow    bool // the versions expire one after another
	long    bool // another value lives for 10 years
}

func expireTimed(t *testing.T, c timedExpiry) {
	t.Helper()
	db, ks := openTimed(t, 1<<20)
	const keys = 2000
	for i := range keys {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			ttl := time.Hour
			if c.slow {
				ttl = time.Duration(1+i) * 10 * time.Second
			}
			return tx.In(ks).At(1).Set(fmt.Appendf(nil, "key-%04d", i), make([]byte, 3000), stoat.TTL(ttl))
		}))
	}
	if c.long {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			return tx.Set([]byte("long"), []byte("v"), stoat.TTL(10*365*24*time.Hour))
		}))
	}
	if c.discard {
		testkit.Must(t, ks.DiscardBelow(2))
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if n := db.Stats().ValueBytes; n < keys*3000 {
		t.Errorf("%d bytes of values before they expire", n)
	}
	if c.compact {
		time.Sleep(time.Hour + time.Second)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	} else {
		time.Sleep(24 * time.Hour)
	}
	before := db.Stats()
	if before.ValueBytes > 1<<20 {
		t.Errorf("value files have %d bytes after the values expired", before.ValueBytes)
	}
	if before.Compactions > 100 {
		t.Errorf("%d compactions", before.Compactions)
	}
	time.Sleep(time.Hour)
	if n := db.Stats().Compactions - before.Compactions; n > 0 {
		t.Errorf("%d compactions in an idle hour after that", n)
	}
	if c.long {
		wantKey(t, db, "long", "v")
	}
	testkit.Must(t, db.Close())
}

// Few entries of a keyspace expire, but they have most of its bytes.
func TestExpiry_GivesSpaceBackOfFewLargeValuesAmongManySmallOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20})
		testkit.Must(t, err)
		const large, small = 1000, 20
		for i := range large {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				for j := range small {
					if err := tx.Set(fmt.Appendf(nil, "key-%04d-%02d", i, j), make([]byte, 50)); err != nil {
						return err
					}
				}
				return tx.Set(fmt.Appendf(nil, "key-%04d-large", i), make([]byte, 10_000), stoat.TTL(time.Hour))
			}))
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		if n := db.Stats().ValueBytes; n < large*10_000 {
			t.Errorf("%d bytes of values before they expire", n)
		}
		time.Sleep(24 * time.Hour)
		before := db.Stats()
		if before.ValueBytes > 1<<20 {
			t.Errorf("value files have %d bytes, 23 hours after the values expired", before.ValueBytes)
		}
		time.Sleep(time.Hour)
		if n := db.Stats().Compactions - before.Compactions; n > 0 {
			t.Errorf("%d compactions in an idle hour after that", n)
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{})
			if len(items) != large*small {
				t.Errorf("%d small values are left, want %d", len(items), large*small)
			}
			return err
		}))
		testkit.Must(t, db.Close())
	})
}
