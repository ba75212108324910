package stoat

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// What is only worth collecting in idleness may have begun when users come back. It
// goes on in small pieces, unless somebody waits for it, or there is so much garbage
// that it would be collected beside users anyway.
func TestACollectionOfIdlenessMakesWayForUsersWhoComeBack(t *testing.T) {
	t.Parallel()
	const values, size = 128, 64 << 10
	for _, c := range []struct {
		what    string
		deleted int // of the values
		come    bool
		asked   bool // somebody calls Collect
		waits   bool
	}{
		{"nobody comes", values / 8, false, false, false},
		{"users come", values / 8, true, false, true},
		{"users come, and one asks for it", values / 8, true, true, false},
		{"users come, and there is much garbage", values / 4, true, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			disk := memfs.New()
			db, err := Open("/db", &Options{FS: disk})
			if err != nil {
				t.Fatal(err)
			}
			update := func(change func(tx *Txn) error) {
				if err := db.Update(change); err != nil {
					t.Error(err)
				}
			}
			update(func(tx *Txn) (err error) {
				for i := 0; i < values && err == nil; i++ {
					err = tx.Set(fmt.Appendf(nil, "%03d", i), make([]byte, size))
				}
				return err
			})
			update(func(tx *Txn) (err error) {
				for i := 0; i < c.deleted && err == nil; i++ {
					err = tx.Delete(fmt.Appendf(nil, "%03d", i))
				}
				return err
			})
			var begun, last time.Time
			asked := make(chan error, 1)
			asked <- nil
			disk.SetHook(func(op vfs.Op) {
				if op.Category != vfs.CatValue || op.Kind != vfs.OpWrite {
					return
				}
				if last = time.Now(); begun.IsZero() {
					begun = last
					if c.asked {
						<-asked
						go func() { asked <- db.Collect(t.Context()) }()
						for !db.collecting.awaited() {
							time.Sleep(time.Millisecond)
						}
						begun = time.Now()
					}
				}
				if c.come {
					update(func(tx *Txn) error { return tx.Set([]byte("key"), []byte("value")) })
				}
			})
			time.Sleep(time.Minute)
			synctest.Wait()
			disk.SetHook(nil)
			if err := <-asked; err != nil {
				t.Error(err)
			}
			s := db.Stats()
			if s.Collections == 0 || s.ValueGarbage != 0 {
				t.Errorf("%s: %d files were collected, %d bytes of garbage are left", c.what, s.Collections, s.ValueGarbage)
			}
			pieces := time.Duration((values-c.deleted)*size>>20) - 2 // the first and the last are begun at once
			if took := last.Sub(begun); c.waits && took < pieces*collectNap || !c.waits && took > 0 {
				t.Errorf("%s: the copy took %v", c.what, took)
			}
			if ns := db.admission.freeNsPerKiB.Load(); c.waits && ns != 0 {
				t.Errorf("%s: it is taken for all that collection can do, %d ns a KiB", c.what, ns)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
