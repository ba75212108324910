package behaviour

import (
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

func TestFollowerFeed_WaitsForTheNextCommit(t *testing.T) {
	t.Parallel()
	for _, every := range []time.Duration{-1, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			f, err := stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: disk, FollowEvery: every})
			testkit.Must(t, err)
			var got []string
			var end error
			begin := func(ctx context.Context, after uint64) (ended chan struct{}) {
				ended = make(chan struct{})
				go func() {
					defer close(ended)
					for c, err := range f.Subscribe(ctx, feed.Options{After: after}) {
						if end = err; err == nil {
							got = append(got, changesOf(t, c))
						}
					}
				}()
				return ended
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := begin(ctx, 0)
			for i := range 3 {
				time.Sleep(time.Minute)
				update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte{byte('a' + i)}, nil) })
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			wantLines(t, "the feed", got, `Set /"a"=""`, `Set /"b"=""`, `Set /"c"=""`)
			cancel()
			<-ended
			testkit.WantError(t, "the feed of a context that is done", end, context.Canceled)
			ended = begin(t.Context(), 3)
			time.Sleep(time.Minute)
			testkit.Must(t, f.Close())
			<-ended
			testkit.WantError(t, "the feed of a closed follower", end, stoat.ErrClosed)
			<-begin(t.Context(), 0)
			testkit.WantError(t, "another feed of a closed follower", end, stoat.ErrClosed)
			testkit.Must(t, db.Close())
		})
	}
}

func TestFollowerFeed_GoesOnWhenTheWriterStartsAgain(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	retain := func(o *stoat.Options) { o.ChangeRetention = 16 << 20 }
	db := testkit.OpenOn(t, disk, retain)
	f := follow(t, disk)
	n := 0
	put := func() {
		n++
		update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(n), make([]byte, 1+n*3000)) })
	}
	put()
	for c, err := range f.Subscribe(t.Context(), feed.Options{}) {
		testkit.Must(t, err)
		if want := fmt.Sprintf("Set /%q", testkit.Key(int(c.Version))); changesOf(t, c)[:len(want)] != want {
			t.Fatalf("version %d: %s", c.Version, changesOf(t, c))
		}
		if int(c.Version) != n {
			t.Fatalf("version %d follows, want %d", c.Version, n)
		}
		if n == 30 {
			break
		}
		switch n % 5 {
		case 0:
			testkit.Must(t, db.Close())
			db = testkit.OpenOn(t, disk, retain)
		case 3:
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		put()
	}
	testkit.Must(t, db.Close())
	if got := feedUpTo(t, f, feed.Options{}); len(got) != n {
		t.Errorf("without a writer: %d commits, want %d", len(got), n)
	}
	var end error
	for _, end = range f.Subscribe(t.Context(), feed.Options{After: uint64(n) + 1}) {
		break
	}
	testkit.WantError(t, "a version of the future", end, stoat.ErrInvalid)
}

// The follower cannot make the writer keep more. A feed that is late must say so.
func TestFollowerFeed_SaysWhatIsGone(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f := follow(t, disk)
	commits := 0
	put := func(n int) {
		for range n {
			commits++
			update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(commits), make([]byte, 1000)) })
		}
	}
	put(10)
	next := uint64(0)
	for c, err := range f.Subscribe(t.Context(), feed.Options{}) {
		var gone *feed.GoneError
		if errors.As(err, &gone) {
			if gone.After != next || gone.Oldest <= next || gone.Oldest > uint64(commits) {
				t.Fatalf("after %d of %d: %+v", next, commits, *gone)
			}
			if got := feedUpTo(t, f, feed.Options{After: gone.Oldest}); len(got) != commits-int(gone.Oldest) {
				t.Errorf("after %d there are %d commits of %d", gone.Oldest, len(got), commits)
			}
			break
		}
		testkit.Must(t, err)
		if next++; c.Version != next {
			t.Fatalf("version %d comes instead of %d", c.Version, next)
		}
		if next == 5 {
			put(2000)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
			put(2000)
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		if next > 4000 {
			t.Fatal("the writer keeps everything")
		}
	}
}

func TestFollowerFeed_AnIngestIsNeverLeftOut(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f := follow(t, disk)
	setKeys(t, db, "before")
	version, err := testkit.Ingest(db, nil, []model.Write{{Key: "ingested"}})
	testkit.Must(t, err)
	testkit.Must(t, f.Refresh(t.Context()))
	for range 2 { // at the end of the log, and before a later commit
		if gone := goneOf(t, f, version-1); gone == nil || *gone != (feed.GoneError{After: version - 1, Oldest: version}) {
			t.Errorf("a feed that needs the ingest of version %d: %+v", version, gone)
		}
		setKeys(t, db, "after")
	}
}

func TestFollowerFeed_SaysThatTheLogIsDamaged(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = 1 << 20 })
	for i := range 10 {
		testkit.Must(t, commitValue(db, fmt.Sprint("value number ", i)))
	}
	f := follow(t, disk)
	for _, damaged := range []uint64{5, 9} { // no frame follows the last one
		path, at := placeInLog(t, disk, fmt.Sprint("value number ", damaged))
		flipByte(t, disk, path, at)
		next, end := uint64(0), error(nil)
		for c, err := range f.Subscribe(t.Context(), feed.Options{}) {
			if end = err; err != nil {
				break
			}
			if next++; c.Version != next {
				t.Errorf("version %d comes instead of %d", c.Version, next)
			}
		}
		testkit.WantError(t, "the feed", end, stoat.ErrCorrupt)
		if next != damaged {
			t.Errorf("%d commits come before the damage of value %d", next, damaged)
		}
		flipByte(t, disk, path, at)
	}
	testkit.Must(t, db.Close())
}

// A feed delivers only what no power cut takes, although the follower shows more.
func TestFollowerFeed_DeliversNothingThatAPowerCutTakes(t *testing.T) {
	t.Parallel()
	disk, db := newWriter(t)
	f := follow(t, disk)
	for i := range uint64(20) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(int(i)), []byte("v")) }, stoat.WithDurability(stoat.Buffered)))
		var cut *memfs.FS
		for c, err := range f.Subscribe(t.Context(), feed.Options{After: i}) {
			testkit.Must(t, err)
			if c.Version != i+1 {
				t.Fatalf("version %d comes instead of %d", c.Version, i+1)
			}
			cut = disk.Crash(memfs.KeepNone, nil)
			break
		}
		left := testkit.OpenOn(t, cut, nil)
		if got := newest(t, left); got != i+1 {
			t.Errorf("the power cut has left version %d, the feed had delivered %d", got, i+1)
		}
		testkit.Must(t, left.Close())
	}
}

// A feed that begins late passes over all of the kept log. A caller need not wait for that.
func TestFollowerFeed_StopsWhileItPassesOverTheLog(t *testing.T) {
	t.Parallel()
	const commits = 1000
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ChangeRetention = 64 << 20 })
	watched := &testkit.WatchedLog{FS: disk}
	f := follow(t, watched)
	for i := range commits {
		update(t, db, func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 3000)) })
	}
	testkit.Must(t, f.Refresh(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	watched.Read = func(string) {
		if reads++; reads == 20 { // before that, the follower looks for commits
			cancel()
		}
	}
	var end error
	for c, err := range f.Subscribe(ctx, feed.Options{After: commits - 1}) {
		if end = err; err == nil {
			t.Errorf("the feed delivers version %d", c.Version)
			break
		}
	}
	testkit.WantError(t, "the feed", end, context.Canceled)
	if reads > 25 {
		t.Errorf("the feed goes on for %d reads", reads-20)
	}
	testkit.Must(t, db.Close())
}
