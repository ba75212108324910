package behaviour

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A process dies. The next one ingests before it commits anything. The log has no damage.
func TestFeed_AnIngestRightAfterAKillIsGoneAndNotCorrupt(t *testing.T) {
	t.Parallel()
	for _, idle := range []bool{false, true} {
		for _, retention := range []int64{1 << 20, -1} {
			t.Run(fmt.Sprint(idle, retention), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					disk := memfs.New()
					open := func(o *stoat.Options) { o.ChangeRetention = retention }
					db := testkit.OpenOn(t, disk, open)
					for i := range 3 {
						testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), []byte("v")) }))
					}
					if idle {
						time.Sleep(3 * time.Second) // the flusher marks the end of the log, and flushes
					} else {
						testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
						testkit.Must(t, db.Sync())
					}
					killed := disk.Clone()
					testkit.Must(t, db.Close())
					db = testkit.OpenOn(t, killed, open)
					defer db.Close()
					in, err := db.Ingest(t.Context(), func(yield func(k, v []byte) bool) { yield([]byte("i"), []byte("v")) }, stoat.IngestOptions{})
					testkit.Must(t, err)
					for _, after := range []uint64{in.Version - 1, 0} {
						for _, buffered := range []bool{false, true} {
							for c, err := range db.Subscribe(t.Context(), feed.Options{After: after, Buffered: buffered}) {
								if err == nil {
									if c.Version >= in.Version {
										t.Errorf("the feed has version %d", c.Version)
										break
									}
									continue
								}
								var gone *feed.GoneError
								if !errors.As(err, &gone) {
									t.Errorf("after %d, buffered %v: %v; ErrCorrupt %v", after, buffered, err, errors.Is(err, stoat.ErrCorrupt))
								}
							}
						}
					}
					_, err = db.Check(t.Context(), stoat.CheckOptions{})
					testkit.Must(t, err)
				})
			})
		}
	}
}

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
