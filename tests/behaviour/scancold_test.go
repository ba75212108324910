package behaviour

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A read of 128 KiB has more than a hundred values of a kilobyte, and a page has four.
func TestScan_ReadsManyValuesInOrderTogether(t *testing.T) {
	t.Parallel()
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const keys = 4000
			disk := faultfs.New(memfs.New())
			opts := &stoat.Options{FS: disk, Durability: stoat.Buffered, Keys: testkit.KeysIf(encrypted)}
			db, err := stoat.Open(testkit.Dir, opts)
			testkit.Must(t, err)
			for i := range keys {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), scatteredValue(i)) }))
			}
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.Must(t, db.Close())
			db, err = stoat.Open(testkit.Dir, opts)
			testkit.Must(t, err)
			var reads atomic.Int64
			disk.Observe(func(op vfs.Op) {
				if op.Category == vfs.CatValue && op.Kind == vfs.OpPopulate {
					reads.Add(1)
				}
			})
			i := 0
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				for _, value := range tx.All() {
					if !bytes.Equal(value, scatteredValue(i)) {
						t.Errorf("the value of key %d is not its own", i)
					}
					i++
				}
				return tx.Err()
			}))
			testkit.Must(t, db.Close())
			if n := reads.Load(); i != keys || n == 0 || n > keys/32 {
				t.Errorf("%d keys, %d reads of value files", i, n)
			}
		})
	}
}
