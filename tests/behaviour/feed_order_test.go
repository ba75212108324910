package behaviour

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// tickingClock goes on by a millisecond with each look.
type tickingClock struct{ ms atomic.Int64 }

func (c *tickingClock) Now() time.Time { return time.UnixMilli(c.ms.Add(1)) }

// Commits with operands take their time later than the other commits of a group.
func TestFeed_TheTimeNeverFalls(t *testing.T) {
	t.Parallel()
	clock := new(tickingClock)
	clock.ms.Store(1_790_000_000_000)
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) {
		*o = testkit.Merging(*o)
		o.Clock, o.ChangeRetention = clock, 1<<20
	})
	defer db.Close()
	const n = 200
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for i := range n {
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		if i%2 == 0 {
			testkit.Must(t, tx.Merge(fmt.Appendf(nil, "m%d", i), []byte("x")))
		} else {
			testkit.Must(t, tx.Set(fmt.Appendf(nil, "s%d", i), []byte("x")))
		}
		all.Add(1)
		tx.CommitAsync(func(_ uint64, err error) {
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
			all.Done()
		})
	}
	all.Wait()
	testkit.Must(t, failed)
	var last feed.Commit
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		testkit.Must(t, err)
		if c.Time.Before(last.Time) {
			t.Fatalf("version %d has the time %d, version %d before it %d", c.Version, c.Time.UnixMilli(), last.Version, last.Time.UnixMilli())
		}
		if last = c; c.Version == n {
			break
		}
	}
}
