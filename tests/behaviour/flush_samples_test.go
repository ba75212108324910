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

// A flush looks now and then into the tables, for what its values replace. What it
// writes does not depend on that, and so it succeeds although a table is damaged.
func TestFlush_DoesNotDependOnTablesThatItOnlySamples(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 2000
		disk := memfs.New()
		set := func(db *stoat.DB, from int) error {
			return db.Update(func(tx stoat.Txn) error {
				for i := range 10 {
					if err := tx.Set(fmt.Appendf(nil, "key-%06d", (from+i)%n), make([]byte, 600)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		db := testkit.OpenOn(t, disk, nil)
		for i := 0; i < n; i += 10 {
			testkit.Must(t, set(db, i))
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Close())
		spoilTableWith(t, disk, "key-0")

		db = testkit.OpenOn(t, disk, nil)
		for i := 0; i < n; i += 10 {
			if err := set(db, i); err != nil {
				t.Fatalf("a commit that reads nothing: %v", err)
			}
		}
		time.Sleep(time.Minute)
		if s := db.Stats(); s.Flushes == 0 || s.Memtables > 1 {
			t.Errorf("%d flushes, %d memtables", s.Flushes, s.Memtables)
		}
		testkit.Must(t, db.Close())
	})
}
