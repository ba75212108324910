package behaviour

import (
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A job that replaces all keys with a prefix deletes them first, and then seeks among them.
func TestDeleteRange_SeeksInItsTransactionPassWhatItDeletedAtOnce(t *testing.T) {
	t.Parallel()
	const keys, seeks = 20_000, 50
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range keys {
			if err := tx.Set(testkit.Key(i), nil); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, reverse := range []bool{false, true} {
		// among returns a function that measures the seeks among keys that were deleted.
		among := func(from, to int) (measure func() time.Duration) {
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			t.Cleanup(tx.Discard)
			testkit.Must(t, tx.DeleteRange(testkit.Key(from), testkit.Key(to)))
			it := tx.Iterator(stoat.IterOptions{Reverse: reverse})
			t.Cleanup(func() { testkit.Must(t, it.Close()) })
			return func() time.Duration {
				began := time.Now()
				for range seeks {
					if !it.Seek(testkit.Key(keys / 2)) {
						t.Fatal("no key is left")
					}
				}
				return time.Since(began)
			}
		}
		amongFew, amongMany := among(keys/2-50, keys/2+50), among(1, keys-1)
		few, many := amongFew(), amongMany()
		for range 100 { // in turns, so that a busy machine slows down both
			few, many = min(few, amongFew()), min(many, amongMany())
		}
		if many > 20*few {
			t.Errorf("reverse %t: a seek takes %v among 100 deleted keys, and %v among %d", reverse, few/seeks, many/seeks, keys)
		}
	}
}
