package stoat

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat/internal/vfs"
)

// What went on would write to a directory whose lock has been given back, and on a
// disk on which there is hardly any space.
func TestAnOpeningThatFailsOnALowDiskLeavesNoWorkBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		db, err := openDriven("/db", &Options{FS: disk, Durability: Buffered}, still{})
		mustOK(t, err)
		mustOK(t, leaveGarbage(db, "key"))
		setSome(t, db)
		killed := disk.Clone() // nobody knows whether the end of the log is durable
		mustOK(t, db.Close())

		killed.SetCapacity(killed.UsedBytes() + 64<<10)
		faults := vfs.NewFaults(killed)
		for _, op := range []vfs.OpKind{vfs.OpCreate, vfs.OpOpenReadWrite} {
			faults.Add(vfs.Rule{Category: vfs.CatLog, Op: op, Forever: true})
		}
		faults.Add(vfs.Rule{Category: vfs.CatValue, Op: vfs.OpCreate, Forever: true}) // so that collection does not end by itself
		var failed atomic.Bool
		faults.Observe(func(op vfs.Op) {
			if !failed.Load() {
				return
			}
			t.Errorf("after Open has failed: %v", op)
			if op.Category == vfs.CatTable {
				runtime.Goexit() // or it would go on for ever
			}
		})
		if _, err := Open("/db", &Options{FS: faults}); !errors.Is(err, vfs.ErrIO) {
			t.Fatalf("Open says %v", err)
		}
		failed.Store(true)
		time.Sleep(time.Minute)
	})
}
