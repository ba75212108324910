package stoat

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A collection that is only worth it in idleness may be under way when commits arrive.
// It goes on in small pieces, unless a caller of Collect waits for it, or there is so
// much garbage that it would be collected beside commits anyway.
func TestCollection_OfIdlenessYieldsToCommits(t *testing.T) {
	t.Parallel()
	const values, size = 128, 64 << 10
	for _, c := range []struct {
		what    string
		deleted int  // of the values
		come    bool // commits arrive
		asked   bool // Collect is called
		waits   bool
	}{
		{"no commits", values / 7, false, false, false},
		{"commits", values / 7, true, false, true},
		{"commits, and a call of Collect", values / 7, true, true, false},
		{"commits, and much garbage", values / 4, true, false, false},
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
						for !db.collector.Collecting.Contended() {
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
			if took := last.Sub(begun); c.waits && took < pieces*collect.IdleRest || !c.waits && took > 0 {
				t.Errorf("%s: the copy took %v", c.what, took)
			}
			if ns := db.throttle.FreeNsPerKiB(); c.waits && ns != 0 {
				t.Errorf("%s: it is taken for all that collection can do, %d ns a KiB", c.what, ns)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
