package behaviour

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// syncTime is how long the device of these tests takes for a sync of the log.
const syncTime = time.Millisecond

// committedBy lets so many goroutines commit a small value so many times each, on a device
// that is slow to sync. It returns how many groups and how many syncs' time that took.
func committedBy(t *testing.T, goroutines, commits int, pause func()) (groups, syncs int) {
	t.Helper()
	fs := memfs.NewVolatile()
	db := testkit.OpenOn(t, fs, nil)
	fs.SetHook(func(op vfs.Op) {
		if op.Kind == vfs.OpSyncData && op.Category == vfs.CatLog {
			time.Sleep(syncTime)
		}
	})
	before, start := db.Stats(), time.Now()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range commits {
				err := db.Update(func(tx stoat.Txn) error { return tx.Set(fmt.Appendf(nil, "%d/%d", g, i), nil) })
				if err != nil {
					t.Error(err)
				}
				pause()
			}
		})
	}
	wg.Wait()
	took, after := time.Since(start), db.Stats()
	testkit.Must(t, db.Close())
	return int(after.Groups - before.Groups), int(took / syncTime)
}

// If the first goroutines that come back began the next sync, the others would wait for it,
// and each sync would serve half of them.
func TestCommit_GoroutinesThatCommitAgainAtOnceShareEachSync(t *testing.T) {
	t.Parallel()
	const commits = 100
	for _, goroutines := range []int{1, 2, 3, 16} {
		synctest.Test(t, func(t *testing.T) {
			groups, syncs := committedBy(t, goroutines, commits, func() {})
			if most := commits * 11 / 10; groups > most || syncs > most {
				t.Errorf("%d commits of each of %d goroutines took %d groups and the time of %d syncs, want at most %d",
					commits, goroutines, groups, syncs, most)
			}
		})
	}
}

// A commit does not wait for goroutines that do something else between their commits.
func TestCommit_WaitsForNoGoroutineThatPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const commits, pause = 100, 10
		_, syncs := committedBy(t, 4, commits, func() { time.Sleep(pause * syncTime) })
		if most := commits * (pause + 2); syncs > most {
			t.Errorf("%d commits and pauses took the time of %d syncs, want at most %d", commits, syncs, most)
		}
	})
}
