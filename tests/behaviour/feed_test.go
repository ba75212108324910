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
	version, err := testkit.VersionOf(db)
	testkit.Must(t, err)
	return version
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

// A callback of CommitAsync may wait for a lock that the goroutine of a feed holds.
func TestFeed_EndsWithCloseBeforeTheCallbacksOfCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := testkit.OpenOn(t, memfs.New(), nil)
		var end error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for _, end = range db.Subscribe(t.Context(), feed.Options{}) {
				_ = end
			}
		}()
		synctest.Wait()
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		testkit.Must(t, tx.Set([]byte("k"), nil))
		tx.CommitAsync(func(uint64, error) { <-ended })
		synctest.Wait()
		testkit.Must(t, db.Close())
		testkit.WantError(t, "the feed", end, stoat.ErrClosed)
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
