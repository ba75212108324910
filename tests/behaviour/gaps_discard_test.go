package behaviour

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A compaction drops versions that older views still show. What a newer reader passes must not
// become a gap for them.
func TestGaps_AnIteratorFromBeforeADiscardGoesOn(t *testing.T) {
	t.Parallel()
	for _, gap := range []bool{false, true} {
		t.Run(fmt.Sprint("another reader passes first=", gap), func(t *testing.T) {
			db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize = 1 << 20 })
			defer db.Close()
			ks := timed(t, db)
			put(t, db, ks, "b 10 old", "b 12")
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				for i := range 100 {
					testkit.Must(t, tx.In(ks).At(30).Set(fmt.Appendf(nil, "a%03d", i), []byte("x")))
				}
				return nil
			}))
			keeper := testkit.Begin(t, db, stoat.ReadOnly) // keeps what the purge deletes
			defer keeper.Discard()
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				return tx.In(ks).At(30).PurgeRange([]byte("a"), []byte("b"))
			}))
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))

			old := testkit.Begin(t, db, stoat.ReadOnly)
			defer old.Discard()
			it := old.In(ks).At(11).Iterator(stoat.IterOptions{})
			if !it.Seek([]byte("b")) || string(it.Key()) != "b" || string(it.Value()) != "old" {
				t.Fatalf("at first the iterator shows %q = %q, %v", it.Key(), it.Value(), it.Err())
			}
			all := func() (n int) {
				versions := old.In(ks).At(30).Iterator(stoat.IterOptions{AllVersions: true})
				for versions.Next() {
					n++
				}
				testkit.Must(t, versions.Close())
				return n
			}
			before := 0
			if !gap {
				before = all()
			}
			testkit.Must(t, ks.DiscardBelow(20))
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			if gap {
				testkit.Must(t, db.View(func(tx stoat.Txn) error {
					for k := range tx.In(ks).At(30).All() {
						t.Errorf("a new reader sees %q", k)
					}
					return tx.Err()
				}))
			}
			if !it.First() || string(it.Key()) != "b" || string(it.Value()) != "old" {
				t.Errorf("the iterator that began before shows %q = %q, %v, want b = old", it.Key(), it.Value(), it.Err())
			}
			if n := all(); n != 2 {
				t.Errorf("AllVersions at 30 in the old transaction shows %d versions, want 2 (before: %d)", n, before)
			}
			testkit.Must(t, it.Close())
		})
	}
}
