package behaviour

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The time of expiry is that of a renewal, which an operand or a renewal of the transaction
// itself finds over.
func TestExpiry_OfARenewalFoundBehindOwnStepsIsDurable(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(t *testing.T, tx stoat.Txn){
		"plain Get": func(t *testing.T, tx stoat.Txn) {
			_, err := tx.Get([]byte("k"))
			testkit.WantError(t, "Get", err, stoat.ErrNotFound)
		},
		"Get after Renew": func(t *testing.T, tx stoat.Txn) {
			testkit.Must(t, tx.Renew([]byte("k"), stoat.TTL(time.Hour)))
			_, err := tx.Get([]byte("k"))
			testkit.WantError(t, "Get", err, stoat.ErrNotFound)
		},
		"Get after Merge": func(t *testing.T, tx stoat.Txn) {
			testkit.Must(t, tx.Merge([]byte("k"), []byte("x")))
			v, err := tx.Get([]byte("k"))
			if err != nil || string(v) != "x" {
				t.Errorf("Get: %q, %v, want x, as the old value has expired", v, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &clockRun{t: t, clock: testkit.NewClock()}
			r.opts = stoat.Options{FS: memfs.New(), Clock: r.clock,
				MergeFunction: merge.Append.Name(), MergeFunctions: []stoat.MergeFunction{merge.Append}}
			r.open()
			r.set("k")
			testkit.Must(t, r.db.Update(func(tx stoat.Txn) error { return tx.Renew([]byte("k"), stoat.TTL(10*time.Millisecond)) }))
			r.at(20)
			tx := testkit.Begin(t, r.db, stoat.ReadWrite)
			read(t, tx)
			tx.Discard()
			r.at(0)
			r.crash(func(m *memfs.FS) *memfs.FS { return m.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 1))) })
			if n := scanCount(t, r.db); n != 0 {
				t.Errorf("after a crash, with the clock turned back, the expired key is back")
			}
			testkit.Must(t, r.db.Close())
		})
	}
}
