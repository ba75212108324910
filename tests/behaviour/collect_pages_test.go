package behaviour

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Collection replaces a value file by another. The new file is in memory if the old
// one was: otherwise reads would fetch the same values again. Values that were never
// read stay on disk.
func TestCollect_ReadValuesStayInMemory(t *testing.T) {
	t.Parallel()
	for _, read := range []bool{false, true} {
		db := testkit.OpenOn(t, memfs.New(), nil)
		testkit.SetKeys(t, db, 0, 1000, 2000, 1)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		for i := 0; i < 1000; i += 25 { // so few that they are left alone
			testkit.DeleteKeys(t, db, i, i+1)
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte{0}})) // merges, and does not collect
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for i := range 1000 {
				if i%25 == 0 || !read {
					continue
				}
				if _, err := tx.Get(testkit.Key(i)); err != nil {
					return err
				}
			}
			return nil
		}))
		before := db.Stats()
		if before.ValueGarbage == 0 {
			t.Fatal("there is nothing to collect")
		}
		testkit.Must(t, db.Collect(t.Context()))
		s := db.Stats()
		most := int64(s.ValueBytes)
		switch pages := s.Memory.ValuePages; {
		case s.Collections == before.Collections:
			t.Fatal("nothing was collected")
		case read && (pages < most*9/10 || pages > most):
			t.Errorf("%d of %d bytes are in memory, want most", pages, most)
		case !read && pages > 0:
			t.Errorf("%d bytes are in memory that nobody has read", pages)
		}
		testkit.Must(t, db.Close())
	}
}
