package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestFeed_KeepsWhatChangeRetentionSays(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	open := func(retention int64) *stoat.DB {
		return testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = retention })
	}
	db := open(64 << 20)
	var want []string
	for i := range 300 {
		key := testkit.Key(i % 10)
		update(t, db, func(tx stoat.Txn) error { return tx.Set(key, bytes.Repeat([]byte{byte(i)}, 4000)) })
		want = append(want, fmt.Sprintf("#%d\nSet /%q=%.20q(4000)", i+1, key, bytes.Repeat([]byte{byte(i)}, 20)))
		if i%100 == 99 {
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			testkit.Must(t, db.Close())
			db = open(0)
		}
	}
	for _, after := range []uint64{0, 1, 99, 100, 101, 299, 300} {
		wantLines(t, fmt.Sprintf("after %d", after), feedUpTo(t, db, feed.Options{After: after}), want[after:]...)
	}
	if n := db.Settings().ChangeRetention; n != 64<<20 {
		t.Errorf("the stored retention is %d", n)
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())

	db = open(-1)
	defer db.Close()
	update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("last"), nil) })
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	gone := goneOf(t, db, 250)
	if gone.After != 250 || gone.Oldest <= 250 || gone.Oldest > 301 {
		t.Errorf("without retention: %+v", *gone)
	}
	feedUpTo(t, db, feed.Options{After: gone.Oldest})
	if size := db.Stats().Log.BytesOnDisk; size > 1<<20 {
		t.Errorf("without retention the log has %d bytes", size)
	}
}

func TestIdle_TheLogGivesUpWhatALowerRetentionDoesNotKeep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		retention int64
		segments  int
	}{"none": {-1, 1}, "some": {256 << 10, 8}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				disk := memfs.New()
				db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = 1 << 30 })
				for i := range 4 {
					testkit.SetKeys(t, db, 0, 1000, 1000, byte(i))
					testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
				}
				before := db.Stats().Log
				testkit.Must(t, db.Close())
				db = testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = c.retention })
				time.Sleep(time.Minute)
				if after := db.Stats().Log; after.Segments > c.segments || before.Segments <= c.segments {
					t.Errorf("the log has %d segments of %d, want at most %d", after.Segments, before.Segments, c.segments)
				}
				flushes := db.Stats().Flushes
				time.Sleep(time.Hour)
				if more := db.Stats().Flushes - flushes; more != 0 {
					t.Errorf("%d flushes in an hour", more)
				}
				testkit.Must(t, db.Close())
			})
		})
	}
}

func TestFeed_RetentionBoundsTheDisk(t *testing.T) {
	t.Parallel()
	const retention = 1 << 20
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.ChangeRetention = retention })
	defer db.Close()
	for i := range 2000 {
		size := 2000
		if i%200 == 0 {
			size = 300_000 // straight to a value file
		}
		update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(i%7), bytes.Repeat([]byte{1}, size)) })
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Collect(t.Context()))
	s := db.Stats()
	if s.Log.BytesOnDisk > 3<<20 {
		t.Errorf("the log has %d bytes", s.Log.BytesOnDisk)
	}
	gone := goneOf(t, db, 0)
	if got := feedUpTo(t, db, feed.Options{After: gone.Oldest}); len(got) != 2000-int(gone.Oldest) || len(got) < 50 {
		t.Errorf("after %d: %d commits", gone.Oldest, len(got))
	}
}

// A segment of pointers stands for many bytes of value files. Only its last part may be kept.
func TestFeed_RetentionHoldsForCommitsOfLargeValues(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize, o.ChangeRetention = 64<<10, 1<<20 })
	defer db.Close()
	commit := func(n int) {
		for i := range n {
			update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(i%7), bytes.Repeat([]byte{byte(i)}, 20<<10)) })
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Collect(t.Context()))
	}
	commit(100)
	last := newest(t, db)
	if got := feedUpTo(t, db, feed.Options{After: last - 3}); len(got) != 3 {
		t.Errorf("%d commits, want 3", len(got))
	}
	commit(1000) // 20 MiB
	gone := goneOf(t, db, last)
	if gone == nil {
		t.Fatal("everything is kept")
	}
	last = newest(t, db)
	got := feedUpTo(t, db, feed.Options{After: gone.Oldest})
	if kept := len(got) * 20 << 10; len(got) != int(last-gone.Oldest) || kept < 1<<20 || kept > 6<<20 {
		t.Errorf("after %d of %d: %d commits", gone.Oldest, last, len(got))
	}
}

func TestFeed_KeepsValuesThatOnlyItNeeds(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = 64 << 20 })
	large := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 200_000) }
	for i := range 5 {
		update(t, db, func(tx stoat.Txn) error {
			return errors.Join(tx.Set([]byte("k"), large(i)), tx.SetReader([]byte("r"), bytes.NewReader(large(i+100))))
		})
	}
	update(t, db, func(tx stoat.Txn) error { return tx.DeleteRange([]byte("k"), nil) })
	shrink := func() {
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Collect(t.Context()))
	}
	for range 2 {
		shrink()
		for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
			testkit.Must(t, err)
			if c.Version == 6 {
				break
			}
			n := 0
			for ch, err := range c.Changes {
				testkit.Must(t, err)
				if want := large(int(c.Version) - 1 + 100*n); !bytes.Equal(ch.Value, want) {
					t.Errorf("version %d: %d bytes of %d", c.Version, len(ch.Value), ch.Value[0])
				}
				n++
			}
		}
		testkit.Must(t, db.Close())
		db = testkit.OpenOn(t, disk, nil)
	}
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = -1 })
	defer db.Close()
	update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("k"), nil) })
	shrink()
	if n := db.Stats().ValueContent; n > 0 {
		t.Errorf("without retention, %d bytes of values are left", n)
	}
}

func TestFeed_SlowLoopDelaysNoCommitAndGetsAnError(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	defer db.Close()
	update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("first"), nil) })
	var gone *feed.GoneError
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		if err != nil {
			if !errors.As(err, &gone) {
				t.Fatal(err)
			}
			break
		}
		if c.Version == 1 {
			for i := range 1000 { // while the loop is slow
				update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 2000)) })
			}
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
	}
	if gone.After != 1 || gone.Oldest < 2 || gone.Oldest > 1001 {
		t.Errorf("the feed ends with %+v", *gone)
	}
}

func TestFeed_ALoopKeepsAMemtableOfTheLog(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	defer db.Close()
	update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte("first"), nil) })
	n := uint64(0)
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		testkit.Must(t, err)
		if n++; c.Version != n {
			t.Fatalf("version %d comes as number %d", c.Version, n)
		}
		if n == 1 {
			for i := range 20 {
				update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 100)) })
			}
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		if n == 21 {
			break
		}
	}
}
