package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestFeed_DeliversNothingThatAPowerCutTakes(t *testing.T) {
	t.Parallel()
	for _, buffered := range []bool{false, true} {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
		update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) })
		for c, err := range db.Subscribe(t.Context(), feed.Options{Buffered: buffered}) {
			testkit.Must(t, err)
			if c.Version == 1 {
				break
			}
		}
		cut := testkit.OpenOn(t, disk.Crash(memfs.KeepNone, nil), nil)
		if has := newest(t, cut) == 1; has == buffered {
			t.Errorf("buffered %v: after a power cut, the commit is there: %v", buffered, has)
		}
		testkit.Must(t, cut.Close())
		testkit.Must(t, db.Close())
	}
}

// A sync that failed in an earlier opening may have left commits in memory only, where later
// syncs skip them. On a full disk the log cannot be written again.
func TestFeed_AfterAnOpenOnAFullDiskItWaitsForALogThatIsDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.Durability = stoat.Buffered })
		setKeys(t, db, "synced")
		testkit.Must(t, db.Sync())
		setKeys(t, db, "buffered")
		last := newest(t, db)
		killed := disk.Clone()
		testkit.Must(t, db.Close())
		killed.SetCapacity(killed.UsedBytes())
		db = testkit.OpenOn(t, killed, nil)
		testkit.WantError(t, "Sync", db.Sync(), stoat.ErrNoSpace)
		delivered := func(upTo uint64, wait time.Duration) (newest uint64) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			for c, err := range db.Subscribe(ctx, feed.Options{}) {
				if err != nil {
					break
				}
				if newest = c.Version; newest == upTo {
					break
				}
			}
			return newest
		}
		if v := delivered(last, 100*time.Millisecond); v == last {
			t.Errorf("the feed delivers version %d, which may be in memory only", v)
		}
		waited := make(chan uint64)
		go func() { waited <- delivered(last, 20*time.Second) }()
		synctest.Wait()
		killed.SetCapacity(1 << 40)
		testkit.Must(t, db.Sync())
		if v := <-waited; v != last {
			t.Errorf("a feed that waits ends at version %d when DB.Sync makes %d durable", v, last)
		}
		setKeys(t, db, "later")
		if v := delivered(last+1, 20*time.Second); v != last+1 {
			t.Errorf("once there is room, the feed ends at version %d, want %d", v, last+1)
		}
		testkit.Must(t, db.Close())
	})
}

func TestFeed_BytesEndWithTheLoop(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) })
	var kept feed.Commit
	for kept = range db.Subscribe(t.Context(), feed.Options{}) {
		break
	}
	for _, err := range kept.Changes {
		testkit.WantError(t, "the changes of a commit after the loop", err, stoat.ErrTxnDone)
	}
}

func TestFeed_AFullDiskEndsTheRetention(t *testing.T) {
	t.Parallel()
	// In a bubble a writer that waits for room gives up only after background jobs rest.
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		disk.SetCapacity(8 << 20)
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) {
			o.ChangeRetention, o.Durability, o.MemtableSize = 1<<40, stoat.Buffered, 256<<10
		})
		defer db.Close()
		for i := range 300 {
			update(t, db, func(tx stoat.Txn) error {
				for j := range 20 {
					if err := tx.Set(testkit.Key(j), make([]byte, 2000)); err != nil {
						return err
					}
				}
				return nil
			})
			if i == 40 {
				feedUpTo(t, db, feed.Options{}) // all is there
			}
		}
		if gone := goneOf(t, db, 0); gone.Oldest == 0 || gone.Oldest > 300 {
			t.Errorf("the feed ends with %+v", *gone)
		}
	})
}

// More is free than the database keeps for deletions, and less than the writer needs.
func TestFeed_AWriterThatWaitsForRoomGetsTheKeptLog(t *testing.T) {
	t.Parallel()
	// In a bubble a writer that waits for room gives up only after background jobs rest.
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		disk.SetCapacity(64 << 20)
		db := testkit.OpenOn(t, disk, func(o *stoat.Options) {
			o.ChangeRetention, o.MemtableSize = 1<<40, 1<<20
		})
		defer db.Close()
		set := func(key, values int) error {
			return db.Update(func(tx stoat.Txn) error {
				for j := range values {
					if err := tx.Set(testkit.Key(key+j), bytes.Repeat([]byte{byte(j)}, 16<<10)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		for range 200 {
			testkit.Must(t, set(0, 16))
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		feedUpTo(t, db, feed.Options{}) // all is there
		free, err := disk.Free("/db")
		testkit.Must(t, err)
		most := int(free) >> 14
		if most > 1<<10 {
			t.Fatalf("only %d of %d bytes are taken", 64<<20-free, 64<<20)
		}
		testkit.Must(t, set(1000, most))
	})
}

func TestFeed_ItsEndFreesWhatWasKeptForIt(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	defer db.Close()
	value := func(tx stoat.Txn) error { return tx.Set([]byte("k"), make([]byte, 3<<20)) }
	update(t, db, value)
	for range db.Subscribe(t.Context(), feed.Options{}) {
		for range 3 {
			update(t, db, value)
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		break
	}
	for until := time.Now().Add(time.Minute); db.Stats().ValueGarbage > 1<<20; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d bytes of garbage stay", db.Stats().ValueGarbage)
		}
	}
}

// The log does not have the commit of an ingest. A feed must say so, also when the ingest
// comes while the feed waits.
func TestFeed_AnIngestIsNeverLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		retain := func(o *stoat.Options) { o.ChangeRetention = 1 << 20 }
		db := testkit.OpenOn(t, disk, retain)
		setKeys(t, db, "before")
		first := newest(t, db)
		waited := make(chan error, 1)
		go func() {
			for _, err := range db.Subscribe(t.Context(), feed.Options{After: first}) {
				waited <- err
				return
			}
		}()
		synctest.Wait()
		version, err := testkit.Ingest(db, nil, []model.Write{{Key: "ingested"}})
		testkit.Must(t, err)
		var gone *feed.GoneError
		if err := <-waited; !errors.As(err, &gone) || *gone != (feed.GoneError{After: first, Oldest: version}) {
			t.Errorf("a feed that waits after %d meets an ingest of version %d with %v", first, version, err)
		}
		setKeys(t, db, "after")
		for range 2 {
			if gone := goneOf(t, db, first); gone.After != first || gone.Oldest != version {
				t.Errorf("a feed after %d ends with %+v, and the ingest has version %d", first, gone, version)
			}
			wantLines(t, "after the ingest", feedUpTo(t, db, feed.Options{After: version}), fmt.Sprintf("#%d\nSet /\"after\"=\"value of after\"", version+1))
			testkit.Must(t, db.Close())
			db = testkit.OpenOn(t, disk, retain)
		}
		testkit.Must(t, db.Close())
	})
}

// An ingest needs no log. So a database that was never committed to has none.
func TestFeed_AnIngestIsNeverLeftOutWithoutALog(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	version, err := testkit.Ingest(db, nil, []model.Write{{Key: "ingested"}})
	testkit.Must(t, err)
	for _, buffered := range []bool{true, false} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for _, err := range db.Subscribe(ctx, feed.Options{Buffered: buffered}) {
			var gone *feed.GoneError
			if !errors.As(err, &gone) || gone.Oldest != version {
				t.Errorf("buffered %t: the feed begins with %v", buffered, err)
			}
			break
		}
		cancel()
	}
	testkit.Must(t, db.Close())
}

// Tables have the last commits, and a power cut has taken some of them from the log. A feed
// must say so, and deliver what comes later.
func TestFeed_SaysWhichCommitsOnlyTablesHave(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = -1 })
	lost := stoat.WithDurability(stoat.Buffered)
	set := func(i int) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), []byte("in a table")) }, lost))
	}
	set(0)
	testkit.Must(t, db.Sync())
	for i := range 5 {
		set(i)
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	n := len(disk.Unsynced())
	gone := 0
	for kept := range 1 << n {
		left := disk.CrashKeeping(func(i int) bool { return kept>>i&1 == 1 })
		gone += feedsAreWholeOrGone(t, left)
	}
	testkit.Must(t, db.Close())
	if gone == 0 {
		t.Error("no feed lacked a commit")
	}
}

// feedsAreWholeOrGone opens a database and demands that each feed delivers all commits or
// ends with a GoneError, also after another commit. It returns how many feeds lacked some.
func feedsAreWholeOrGone(t *testing.T, disk *memfs.FS) (gone int) {
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = 1 << 20 })
	defer db.Close()
	for range 2 {
		last := newest(t, db)
		for after := range last {
			next := after
			for c, err := range db.Subscribe(t.Context(), feed.Options{After: after}) {
				var g *feed.GoneError
				if errors.As(err, &g) && g.After == next && g.Oldest > next && g.Oldest <= last {
					gone++
					break
				}
				testkit.Must(t, err)
				if next++; c.Version != next {
					t.Errorf("version %d comes instead of %d", c.Version, next)
				}
				if next == last {
					break
				}
			}
		}
		setKeys(t, db, "later")
	}
	return gone
}

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
