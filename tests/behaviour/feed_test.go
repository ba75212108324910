package behaviour

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// changesOf returns the changes of a commit, one a line.
func changesOf(t *testing.T, c feed.Commit) string {
	t.Helper()
	var lines []string
	for ch, err := range c.Changes {
		testkit.Must(t, err)
		line := fmt.Sprintf("%s %s/%q", ch.Kind, ch.Keyspace, ch.Key)
		if ch.Kind == feed.DeleteRange {
			line += fmt.Sprintf(" to %q", ch.End)
			if ch.End == nil {
				line += " (none)"
			}
		}
		if ch.Value != nil {
			line += fmt.Sprintf("=%.20q", ch.Value)
		}
		if len(ch.Value) > 20 {
			line += fmt.Sprintf("(%d)", len(ch.Value))
		}
		if !ch.ExpiresAt.IsZero() {
			line += fmt.Sprintf(" until %d", ch.ExpiresAt.UnixMilli())
		}
		if ch.UserMeta != 0 {
			line += fmt.Sprintf(" meta %d", ch.UserMeta)
		}
		if ch.Timestamp != 0 {
			line += fmt.Sprintf(" at %d", ch.Timestamp)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// newest returns the newest version.
func newest(t *testing.T, db *stoat.DB) uint64 {
	t.Helper()
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	defer tx.Discard()
	return tx.ReadVersion()
}

// feedUpTo returns the changes of each commit in a feed up to the newest version.
func feedUpTo(t *testing.T, db *stoat.DB, o feed.Options) (commits []string) {
	t.Helper()
	last := newest(t, db)
	if last == o.After {
		return nil
	}
	for c, err := range db.Subscribe(t.Context(), o) {
		testkit.Must(t, err)
		commits = append(commits, fmt.Sprintf("#%d\n%s", c.Version, changesOf(t, c)))
		if c.Version == last {
			break
		}
	}
	return commits
}

// goneOf returns the GoneError with which a feed ends at once.
func goneOf(t *testing.T, db *stoat.DB, after uint64) *feed.GoneError {
	t.Helper()
	for c, err := range db.Subscribe(t.Context(), feed.Options{After: after}) {
		var gone *feed.GoneError
		if !errors.As(err, &gone) {
			t.Fatalf("a feed after %d begins with %d, %v", after, c.Version, err)
		}
		return gone
	}
	return nil
}

func update(t *testing.T, db *stoat.DB, fn func(tx stoat.Txn) error) {
	t.Helper()
	testkit.Must(t, db.Update(fn))
}

func wantLines(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
		t.Errorf("%s:\n%s\nwant:\n%s", what, g, w)
	}
}

func TestFeed_HasEveryKindOfChange(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { *o = testkit.Merging(*o) })
	defer db.Close()
	other := keyspace(t, db, "other")
	timed, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.Must(t, err)
	at := time.UnixMilli(4_000_000_000_000)
	update(t, db, func(tx stoat.Txn) error {
		return errors.Join(
			tx.Set([]byte("gone"), []byte("v")),
			tx.DeleteRange([]byte("b"), []byte("k")),
			tx.Set([]byte("c"), []byte("v"), stoat.ExpiresAt(at), stoat.UserMeta(7)),
			tx.Delete([]byte("d")),
			tx.Set([]byte("\xff\x00"), nil),
			tx.In(other).Set([]byte("\xff"), bytes.Repeat([]byte("x"), 3000)),
			tx.Merge([]byte("m"), []byte("+1")), tx.Renew([]byte("m"), stoat.ExpiresAt(at)), tx.Merge([]byte("m"), []byte("+2")),
			tx.In(timed).At(5).Set([]byte("a\x00"), []byte("old")),
			tx.In(timed).At(6).Delete([]byte("a\x00")),
		)
	})
	update(t, db, func(tx stoat.Txn) error {
		return errors.Join(tx.In(other).DeleteRange(nil, nil), tx.In(other).DeleteRange([]byte("\xff"), nil), tx.DeleteRange(nil, []byte("\xff\x01")))
	})
	testkit.Must(t, timed.DropPrefix(t.Context(), []byte("a")))
	testkit.Must(t, db.DropAll(t.Context()))
	want := []string{
		"#1",
		`DeleteRange /"b" to "k"`,
		`Set /"c"="v" until 4000000000000 meta 7`,
		`Delete /"d"`,
		`Set /"\xff\x00"=""`,
		`Set other/"\xff"="xxxxxxxxxxxxxxxxxxxx"(3000)`,
		`Merge /"m"="+1"`, `Renew /"m" until 4000000000000`, `Merge /"m"="+2"`,
		`Set timed/"a\x00"="old" at 5`,
		`Delete timed/"a\x00" at 6`,
		"#2",
		`DeleteRange other/"" to "" (none)`, `DeleteRange other/"\xff" to "" (none)`, `DeleteRange /"" to "\xff\x01"`,
		"#3", `DeleteRange timed/"a" to "b"`,
		"#4", `DeleteRange /"" to "" (none)`, `DeleteRange other/"" to "" (none)`, `DeleteRange timed/"" to "" (none)`}
	wantLines(t, "the feed", feedUpTo(t, db, feed.Options{}), want...)
	wantLines(t, "the feed of a follower", feedUpTo(t, follow(t, disk), feed.Options{}), want...)
}

// A program may replace many subtrees in one commit. A feed once took a time that grew with
// the square of their number.
func TestFeed_ManyRangesAmongWritesTakeLittleLongerThanTheirCommit(t *testing.T) {
	t.Parallel()
	const subtrees = 40_000
	// An idle flush leaves the commit to the feed.
	db := testkit.OpenOn(t, memfs.New(), func(o *stoat.Options) { o.MemtableSize, o.ChangeRetention = 64<<20, 64<<20 })
	defer db.Close()
	began := time.Now()
	update(t, db, func(tx stoat.Txn) error {
		for i := range subtrees {
			lo, hi := fmt.Appendf(nil, "%06d/", i), fmt.Appendf(nil, "%06d0", i)
			if err := errors.Join(tx.DeleteRange(lo, hi), tx.Set(append(lo, 'x'), nil)); err != nil {
				return err
			}
		}
		return nil
	})
	commit := time.Since(began)
	took := time.Duration(math.MaxInt64)
	for range 3 {
		began = time.Now()
		ranges, sets := 0, 0
		for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
			testkit.Must(t, err)
			for ch, err := range c.Changes {
				testkit.Must(t, err)
				n := &ranges
				if ch.Kind == feed.Set {
					n = &sets
				}
				if want := fmt.Sprintf("%06d/", *n); !strings.HasPrefix(string(ch.Key), want) || ch.Kind != feed.Set && sets > 0 {
					t.Fatalf("after %d ranges and %d sets: %s of %q", ranges, sets, ch.Kind, ch.Key)
				}
				*n++
			}
			break
		}
		if ranges != subtrees || sets != subtrees {
			t.Errorf("%d ranges and %d sets, want %d of each", ranges, sets, subtrees)
		}
		took = min(took, time.Since(began))
	}
	if took > 10*commit+time.Second {
		t.Errorf("the feed took %v, the commit %v", took, commit)
	}
}

func TestFeed_WaitsForTheNextCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := testkit.OpenOn(t, memfs.New(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		var end error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for c, err := range db.Subscribe(ctx, feed.Options{}) {
				if end = err; err == nil {
					got = append(got, changesOf(t, c))
				}
			}
		}()
		for i := range 3 {
			synctest.Wait()
			update(t, db, func(tx stoat.Txn) error { return tx.Set([]byte{byte('a' + i)}, nil) })
		}
		synctest.Wait()
		wantLines(t, "the feed", got, `Set /"a"=""`, `Set /"b"=""`, `Set /"c"=""`)
		cancel()
		<-ended
		if !errors.Is(end, context.Canceled) {
			t.Errorf("the feed ends with %v", end)
		}
		go func() {
			for _, end = range db.Subscribe(t.Context(), feed.Options{After: 3}) {
				_ = end
			}
			ended <- struct{}{}
		}()
		ended = make(chan struct{})
		synctest.Wait()
		testkit.Must(t, db.Close())
		<-ended
		if !errors.Is(end, stoat.ErrClosed) {
			t.Errorf("Close ends the feed with %v", end)
		}
	})
}

func TestFeed_RefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	first := func(db *stoat.DB, after uint64) (err error) {
		for _, err = range db.Subscribe(t.Context(), feed.Options{After: after}) {
			break
		}
		return err
	}
	testkit.WantError(t, "a version of the future", first(db, 1), stoat.ErrInvalid)
	testkit.Must(t, db.Close())
	testkit.WantError(t, "a closed database", first(db, 0), stoat.ErrClosed)
	db = testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ReadOnly = true })
	defer db.Close()
	testkit.WantError(t, "a read-only database", first(db, 0), stoat.ErrReadOnly)
}

func TestFeed_FiltersByKeyspaceAndPrefix(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	other := keyspace(t, db, "other")
	for _, key := range []string{"a", "ab", "b"} {
		update(t, db, func(tx stoat.Txn) error {
			return errors.Join(tx.Set([]byte(key), nil), tx.In(other).Set([]byte(key), nil))
		})
	}
	update(t, db, func(tx stoat.Txn) error { return tx.DeleteRange([]byte("aa"), []byte("aab")) })
	update(t, db, func(tx stoat.Txn) error { return tx.DeleteRange([]byte("b"), nil) })
	wantLines(t, "keys that begin with ab", feedUpTo(t, db, feed.Options{Prefix: []byte("ab")}),
		"#2", `Set /"ab"=""`, `Set other/"ab"=""`, "#5", "")
	wantLines(t, "keyspace other", feedUpTo(t, db, feed.Options{Keyspaces: []string{"other"}, Prefix: []byte("a")}),
		"#1", `Set other/"a"=""`, "#2", `Set other/"ab"=""`, "#5", "")
	wantLines(t, "the default keyspace", feedUpTo(t, db, feed.Options{Keyspaces: []string{""}, Prefix: []byte("aac")}),
		"#5", "")
	wantLines(t, "a range", feedUpTo(t, db, feed.Options{Keyspaces: []string{""}, Prefix: []byte("aaa"), After: 3}),
		"#4", `DeleteRange /"aa" to "aab"`, "#5", "")
}

func TestFeed_HasTheDropOfAKeyspaceButNotItsChanges(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	retain := func(o *stoat.Options) { o.ChangeRetention = 1 << 20 }
	db := testkit.OpenOn(t, disk, retain)
	var held []stoat.Txn
	for range 2 {
		ks := keyspace(t, db, "a")
		update(t, db, func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), nil) })
		held = append(held, testkit.Begin(t, db, stoat.ReadOnly)) // so the name is not forgotten yet
		testkit.Must(t, db.DropKeyspace("a"))
	}
	ks := keyspace(t, db, "a")
	update(t, db, func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("new"), nil) })
	// The deletion of all keys is no drop.
	update(t, db, func(tx stoat.Txn) error { return tx.In(ks).DeleteRange(nil, nil) })
	last := `DeleteRange a/"" to "" (none)`
	wantLines(t, "the feed", feedUpTo(t, db, feed.Options{}), "#1", `DropKeyspace a/""`, "#2", `DropKeyspace a/""`,
		"#3", `DropKeyspace a/""`, "#4", `DropKeyspace a/""`, "#5", `Set a/"new"=""`, "#6", last)
	wantLines(t, "the feed of the keyspace", feedUpTo(t, db, feed.Options{Keyspaces: []string{"a"}, Prefix: []byte("x")}),
		"#1", `DropKeyspace a/""`, "#2", `DropKeyspace a/""`, "#3", `DropKeyspace a/""`, "#4", `DropKeyspace a/""`, "#6", last)
	wantLines(t, "the feed of another keyspace", feedUpTo(t, db, feed.Options{Keyspaces: []string{""}}), "#6", "")

	// Once the name is forgotten, each feed has the drop.
	for _, tx := range held {
		tx.Discard()
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, retain)
	defer db.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if !strings.Contains(strings.Join(feedUpTo(t, db, feed.Options{}), ""), "DropKeyspace a") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the name is never forgotten")
		}
	}
	for _, f := range []*stoat.DB{db, follow(t, disk)} {
		wantLines(t, "the feed of another keyspace", feedUpTo(t, f, feed.Options{Keyspaces: []string{""}}),
			"#1", `DropKeyspace /""`, "#2", `DropKeyspace /""`, "#3", `DropKeyspace /""`, "#4", `DropKeyspace /""`, "#6", "")
		wantLines(t, "the feed", feedUpTo(t, f, feed.Options{}), "#1", `DropKeyspace /""`, "#2", `DropKeyspace /""`,
			"#3", `DropKeyspace /""`, "#4", `DropKeyspace /""`, "#5", `Set a/"new"=""`, "#6", last)
	}
}

// A crash may keep the commit of a drop from the log, and the keyspace may have no key then.
// A feed that leaves out a change of it says nonetheless that it is gone.
func TestFeed_HasTheDropOfAKeyspaceThatACrashCutShort(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	retain := func(o *stoat.Options) { o.ChangeRetention = 1 << 20 }
	db := testkit.OpenOn(t, disk, retain)
	ks := keyspace(t, db, "a")
	update(t, db, func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("k"), []byte("v")) })
	update(t, db, func(tx stoat.Txn) error { return tx.In(ks).Delete([]byte("k")) })
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	stop := testkit.States(disk)
	testkit.Must(t, db.DropKeyspace("a"))
	cuts := stop()
	testkit.Must(t, db.Close())
	drops := 0
	for i, cut := range cuts {
		db := testkit.OpenOn(t, cut.Disk, retain)
		exists := func() bool {
			infos, err := db.Keyspaces()
			testkit.Must(t, err)
			return len(infos) > 1
		}
		kept := exists()
		got := strings.Join(feedUpTo(t, db, feed.Options{After: 1}), " ")
		if deleted, dropped := strings.Contains(got, `Delete a/"k"`), strings.Contains(got, "DropKeyspace"); deleted != kept || dropped == kept {
			t.Errorf("cut %d: the keyspace exists is %v, and the feed has %s", i, kept, got)
		}
		if !kept {
			drops++
		}
		testkit.Must(t, db.Close())
	}
	if drops == 0 || drops == len(cuts) {
		t.Errorf("%d of %d cuts are in the drop", drops, len(cuts))
	}
}

func TestFeed_TellsKeyspacesOfOneNameApart(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ids := map[uint32]bool{}
	for range 2 {
		after := newest(t, db)
		ks, err := db.Keyspace("jobs", nil)
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set([]byte("key"), nil) }))
		infos, err := db.Keyspaces()
		testkit.Must(t, err)
		for c, err := range db.Subscribe(t.Context(), feed.Options{After: after, Keyspaces: []string{"jobs"}}) {
			testkit.Must(t, err)
			seen := false
			for ch, err := range c.Changes {
				testkit.Must(t, err)
				if seen = true; ch.KeyspaceID != infos[1].ID || ids[ch.KeyspaceID] || ch.KeyspaceID == 0 {
					t.Errorf("the change has the ID %d, the keyspace %d", ch.KeyspaceID, infos[1].ID)
				}
				ids[ch.KeyspaceID] = true
			}
			if seen {
				break
			}
		}
		testkit.Must(t, db.DropKeyspace("jobs"))
	}
}

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
