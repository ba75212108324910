package behaviour

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func scanCount(t *testing.T, db *stoat.DB) (n int) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for range tx.All() {
			n++
		}
		return tx.Err()
	}))
	return n
}

// On the full disk, the first reader cannot make the time durable. A later reader passes the keys
// by a gap.
func TestExpiry_AGapMakesTheTimeDurable(t *testing.T) {
	t.Parallel()
	for _, keys := range []int{10, 100} { // without and with a gap
		t.Run(fmt.Sprint(keys, " keys"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClockRun(t)
				testkit.Must(t, r.db.Update(func(tx stoat.Txn) error {
					for i := range keys {
						ttl := 10 * time.Millisecond
						if i < 5 {
							ttl = 5 * time.Millisecond
						}
						testkit.Must(t, tx.Set(fmt.Appendf(nil, "k%03d", i), []byte("v"), stoat.TTL(ttl)))
					}
					return nil
				}))
				r.at(7)
				if n := scanCount(t, r.db); n != keys-5 { // makes 7 ms durable
					t.Fatalf("%d keys at first", n)
				}
				r.at(20)
				disk := r.opts.FS.(*memfs.FS)
				disk.SetCapacity(disk.UsedBytes() + 1<<20)
				if n := scanCount(t, r.db); n != 0 {
					t.Fatalf("%d keys while the disk is full", n)
				}
				disk.SetCapacity(1 << 40)
				time.Sleep(2 * time.Second) // after a failure, readers wait before they try again
				r.at(5000)
				if n := scanCount(t, r.db); n != 0 {
					t.Fatalf("%d keys later", n)
				}
				r.at(0)
				r.crash(func(m *memfs.FS) *memfs.FS { return m.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 1))) })
				if n := scanCount(t, r.db); n != 0 {
					t.Errorf("after a crash, with the clock turned back, %d expired keys are back", n)
				}
				testkit.Must(t, r.db.Close())
			})
		})
	}
}

// The expiry time is that of the value or of a renewal.
func TestExpiry_FoundBehindOwnRenewalsAndOperandsIsDurable(t *testing.T) {
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
		"a scan after Renew": func(t *testing.T, tx stoat.Txn) {
			testkit.Must(t, tx.Renew([]byte("k"), stoat.TTL(time.Hour)))
			for k := range tx.All() {
				t.Errorf("a scan shows %q", k)
			}
			testkit.Must(t, tx.Err())
		},
		"Get after Merge": func(t *testing.T, tx stoat.Txn) {
			testkit.Must(t, tx.Merge([]byte("k"), []byte("x")))
			v, err := tx.Get([]byte("k"))
			if err != nil || string(v) != "x" {
				t.Errorf("Get: %q, %v, want x, as the old value has expired", v, err)
			}
		},
	} {
		for _, renewed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, renewed %v", name, renewed), func(t *testing.T) {
				r := &clockRun{t: t, clock: testkit.NewClock()}
				r.opts = stoat.Options{FS: memfs.New(), Clock: r.clock,
					MergeFunction: merge.Append.Name(), MergeFunctions: []stoat.MergeFunction{merge.Append}}
				r.open()
				if renewed {
					r.set("k")
					testkit.Must(t, r.db.Update(func(tx stoat.Txn) error { return tx.Renew([]byte("k"), stoat.TTL(10*time.Millisecond)) }))
				} else {
					r.set("k", stoat.TTL(10*time.Millisecond))
				}
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
}
