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

func TestNumVersions_OnAnIdleDatabaseALowerOneGivesSpaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := stoat.Open("/db", &stoat.Options{FS: memfs.New(), MemtableSize: 1 << 20})
		testkit.Must(t, err)
		keep := func(versions int) *stoat.Keyspace {
			ks, err := db.Keyspace("versions", &stoat.KeyspaceOptions{NumVersions: versions})
			testkit.Must(t, err)
			return ks
		}
		ks := keep(10)
		const keys, versions = 100, 10
		for range versions {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				for i := range keys {
					if err := tx.In(ks).Set(fmt.Appendf(nil, "key-%03d", i), make([]byte, 5000)); err != nil {
						return err
					}
				}
				return nil
			}))
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		time.Sleep(time.Hour)
		if n := db.Stats().ValueBytes; n < keys*versions*5000 {
			t.Errorf("%d bytes of values while all versions stay", n)
		}
		keep(1)
		time.Sleep(time.Hour)
		if n := db.Stats().ValueBytes; n > 2*keys*5000 {
			t.Errorf("value files have %d bytes, an hour after the keyspace keeps one version", n)
		}
		testkit.Must(t, db.Close())
	})
}
