package behaviour

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// keysOf returns the keys that a transaction sees, forward, and demands that
// the other ways to look agree.
func keysOf(t *testing.T, tx stoat.Txn) string {
	t.Helper()
	var forward, backward []string
	it := tx.Iterator(stoat.IterOptions{})
	for it.Next() {
		forward = append(forward, string(it.Key()))
		if _, err := tx.Get(it.Key()); err != nil {
			t.Errorf("the iterator shows %q, Get says %v", it.Key(), err)
		}
	}
	testkit.Must(t, it.Err())
	it.Close()
	it = tx.Iterator(stoat.IterOptions{Reverse: true, KeysOnly: true})
	for it.Next() {
		backward = append([]string{string(it.Key())}, backward...)
	}
	testkit.Must(t, it.Err())
	it.Close()
	got := strings.Join(forward, " ")
	if other := strings.Join(backward, " "); got != other {
		t.Errorf("forward: %s, backward: %s", got, other)
	}
	return got
}

func wantKeys(t *testing.T, what string, tx stoat.Txn, want string) {
	t.Helper()
	if got := keysOf(t, tx); got != want {
		t.Errorf("%s: keys are %.60q, want %q", what, got, want)
	}
}

func setKeys(t *testing.T, db *stoat.DB, keys string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, k := range strings.Fields(keys) {
			if err := tx.Set([]byte(k), []byte("value of "+k)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func deleteRange(t *testing.T, db *stoat.DB, lo, hi string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte(lo), []byte(hi)) }))
}

// Each of these moves what was written elsewhere; reads must not be able to
// tell.
var moves = []struct {
	name string
	move func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB)
}{
	{"memtable", func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB) { return disk, db }},
	{"reopened", func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB) {
		testkit.Must(t, db.Close())
		return disk, testkit.OpenOn(t, disk, nil)
	}},
	{"power cut", func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB) {
		crashed := disk.Crash(memfs.KeepNone, rand.New(rand.NewPCG(1, 2)))
		testkit.Must(t, db.Close())
		return crashed, testkit.OpenOn(t, crashed, nil)
	}},
	{"flushed", func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB) {
		testkit.Must(t, db.Checkpoint(t.Context(), fmt.Sprintf("/copies/%d", rand.Uint64())))
		return disk, db
	}},
	{"compacted", func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB) {
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		return disk, db
	}},
	{"checkpoint", func(t *testing.T, disk *memfs.FS, db *stoat.DB) (*memfs.FS, *stoat.DB) {
		testkit.Must(t, db.Checkpoint(t.Context(), testkit.CopyDir))
		testkit.Must(t, db.Close())
		copied, err := stoat.Open(testkit.CopyDir, &stoat.Options{FS: disk, MemtableSize: 128 << 10})
		testkit.Must(t, err)
		return disk, copied
	}},
}

// afterSomeMoves runs a test on databases with keys, one for each of three moves. The
// test calls move when it has written.
func afterSomeMoves(t *testing.T, keys string, test func(t *testing.T, db *stoat.DB, move func())) {
	t.Helper()
	for _, m := range []int{0, 3, 4} { // those after which the database stays open
		t.Run(moves[m].name, func(t *testing.T) {
			t.Parallel()
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			setKeys(t, db, keys)
			test(t, db, func() { moves[m].move(t, disk, db) })
			testkit.Must(t, db.Close())
		})
	}
}

func TestRangeDeletion_HidesOlderKeysWhereverTheyAre(t *testing.T) {
	t.Parallel()
	for _, before := range moves[:5] {
		for _, after := range moves {
			t.Run(before.name+" then "+after.name, func(t *testing.T) {
				t.Parallel()
				disk := memfs.New()
				db := testkit.OpenOn(t, disk, nil)
				setKeys(t, db, "a b c d e f")
				disk, db = before.move(t, disk, db)
				deleteRange(t, db, "b", "e")
				setKeys(t, db, "c")
				_, db = after.move(t, disk, db)
				testkit.Must(t, db.View(func(tx stoat.Txn) error {
					wantKeys(t, "afterwards", tx, "a c e f")
					for _, key := range []string{"b", "d", "bb"} {
						_, err := tx.Get([]byte(key))
						testkit.WantError(t, "get "+key, err, stoat.ErrNotFound)
					}
					return nil
				}))
				testkit.MustBeSound(t, db)
				testkit.Must(t, db.Close())
			})
		}
	}
}

func TestRangeDeletion_EarlierSnapshotSeesTheKeys(t *testing.T) {
	t.Parallel()
	afterSomeMoves(t, "a b c d", func(t *testing.T, db *stoat.DB, move func()) {
		first := testkit.Begin(t, db, stoat.ReadOnly)
		deleteRange(t, db, "b", "d")
		second := testkit.Begin(t, db, stoat.ReadOnly)
		setKeys(t, db, "b")
		third := testkit.Begin(t, db, stoat.ReadOnly)
		deleteRange(t, db, "a", "c")
		move()
		wantKeys(t, "before", first, "a b c d")
		wantKeys(t, "after the first", second, "a d")
		wantKeys(t, "after b came back", third, "a b d")
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			wantKeys(t, "now", tx, "d")
			return nil
		}))
		for _, tx := range []stoat.Txn{first, second, third} {
			tx.Discard()
		}
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.MustBeSound(t, db)
	})
}

func TestRangeDeletion_LaterSetsOfItsTransactionLive(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 200 << 10} { // the larger one is a memtable by itself
		for _, m := range moves {
			t.Run(fmt.Sprintf("%d/%s", size, m.name), func(t *testing.T) {
				t.Parallel()
				disk := memfs.New()
				db := testkit.OpenOn(t, disk, nil)
				setKeys(t, db, "a b c d e")
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					testkit.Must(t, tx.Set([]byte("bb"), make([]byte, size)))
					testkit.Must(t, tx.Set([]byte("c"), []byte("dies")))
					testkit.Must(t, tx.DeleteRange([]byte("b"), []byte("d")))
					wantKeys(t, "after the deletion", tx, "a d e")
					testkit.Must(t, tx.Set([]byte("c"), make([]byte, size)))
					wantKeys(t, "after c came back", tx, "a c d e")
					testkit.Must(t, tx.DeleteRange([]byte("e"), nil))
					testkit.Must(t, tx.Set([]byte("f"), nil))
					wantKeys(t, "at the end", tx, "a c d f")
					return nil
				}))
				_, db = m.move(t, disk, db)
				testkit.Must(t, db.View(func(tx stoat.Txn) error {
					wantKeys(t, "committed", tx, "a c d f")
					v, err := tx.Get([]byte("c"))
					if err != nil || len(v) != size {
						t.Errorf("c is %d bytes, error %v", len(v), err)
					}
					return nil
				}))
				testkit.Must(t, db.Close())
			})
		}
	}
}

func TestRangeDeletion_IteratorSeesThoseOfItsTransactionOncePositionedAnew(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	setKeys(t, db, "a b c d e")
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	it := tx.Iterator(stoat.IterOptions{})
	if !it.First() || string(it.Key()) != "a" {
		t.Fatalf("at %q", it.Key())
	}
	testkit.Must(t, tx.DeleteRange([]byte("b"), []byte("d")))
	if !it.Next() || string(it.Key()) != "b" {
		t.Errorf("an iterator under way goes on to %q, want b", it.Key())
	}
	if !it.Seek([]byte("b")) || string(it.Key()) != "d" {
		t.Errorf("positioned anew it is at %q, want d", it.Key())
	}
	testkit.Must(t, tx.DeleteRange([]byte("d"), []byte("e")))
	if !it.Seek([]byte("b")) || string(it.Key()) != "e" {
		t.Errorf("after another deletion it is at %q, want e", it.Key())
	}
	tx.Discard()
	testkit.Must(t, db.Close())
}

func TestRangeDeletion_Bounds(t *testing.T) {
	t.Parallel()
	last := strings.Repeat("\xff", stoat.MaxKeySize)
	all := []string{"\x00", "a", "b", "\xff", last[:len(last)-1], last}
	for _, c := range []struct {
		lo, hi []byte
		want   []string
	}{
		{nil, nil, nil},
		{[]byte{}, nil, nil},
		{nil, []byte("a"), all[1:]},
		{[]byte("a"), nil, all[:1]},
		{[]byte("a"), []byte("a"), all},
		{[]byte("b"), []byte("a"), all},
		{nil, []byte{}, all},
		{[]byte("a"), []byte("a\x00"), append([]string{"\x00"}, all[2:]...)},
		{[]byte("c"), []byte(last), append(append([]string{}, all[:3]...), last)},
		{[]byte(last), nil, all[:5]},
	} {
		db := testkit.OpenMem(t)
		for _, key := range all {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), nil) }))
		}
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(c.lo, c.hi) }))
		for range 2 {
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				if got, want := keysOf(t, tx), strings.Join(c.want, " "); got != want {
					t.Errorf("[%.10q, %.10q) leaves %.40q, want %.40q", c.lo, c.hi, got, want)
				}
				return nil
			}))
			testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		}
		testkit.Must(t, db.Close())
	}
}

// lastKey is the greatest key.
var lastKey = bytes.Repeat([]byte{0xff}, stoat.MaxKeySize)

// The range that ends behind a longest key has a bound that is longer than any key. The
// longest keys of a keyspace are stored with a prefix.
func TestRangeDeletion_EndsOrBeginsBehindALongestKey(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	set := func(o *stoat.Options) { o.ChangeRetention = 256 << 20 }
	db := testkit.OpenOn(t, disk, set)
	replica := testkit.OpenMem(t)
	var numbered string // a keyspace with the longest prefix
	for i := range 245 {
		numbered = fmt.Sprint("ks", i)
		keyspace(t, db, numbered)
	}
	names := []string{"", "ks0", numbered}
	of := func(db *stoat.DB, name string) *stoat.Keyspace {
		if name == "" {
			return nil
		}
		return keyspace(t, db, name)
	}
	long := strings.Repeat("k", stoat.MaxKeySize)
	all := []string{"a", long, "l", string(lastKey[1:]), string(lastKey)}
	for _, name := range names {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, key := range all {
				testkit.Must(t, tx.In(of(db, name)).Set([]byte(key), nil))
			}
			return nil
		}))
	}
	before := testkit.Begin(t, db, stoat.ReadOnly) // so that compactions keep the deletions
	for _, name := range names {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			tx = tx.In(of(db, name))
			testkit.Must(t, tx.DeleteRange([]byte(long), []byte(long+"\x00")))
			return tx.DeleteRange(append(bytes.Clone(lastKey), 0), nil)
		}))
		b := db.NewBatch(stoat.BatchOptions{Size: 1 << 20})
		testkit.Must(t, b.In(of(db, name)).DeleteRange(lastKey, append(bytes.Clone(lastKey), 0)))
		testkit.Must(t, b.Commit())
	}
	want := strings.Join([]string{"a", "l", string(lastKey[1:])}, " ")
	check := func(when string, db *stoat.DB) {
		for _, name := range names {
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				if got := keysOf(t, tx.In(of(db, name))); got != want {
					t.Errorf("%s, keyspace %q: %.40q, want %.40q", when, name, got, want)
				}
				return nil
			}))
		}
	}
	check("in memory", db)
	for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
		testkit.Must(t, err)
		testkit.Must(t, replica.Update(func(tx stoat.Txn) error {
			for change, err := range c.Changes {
				testkit.Must(t, err)
				in := tx.In(of(replica, change.Keyspace))
				if change.Kind == feed.Set {
					testkit.Must(t, in.Set(change.Key, change.Value))
				} else {
					testkit.Must(t, in.DeleteRange(change.Key, change.End))
				}
			}
			return nil
		}))
		if c.Version == newest(t, db) {
			break
		}
	}
	check("in a replica", replica)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	check("in tables", db)
	testkit.MustBeSound(t, db)
	before.Discard()
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, set)
	check("reopened", db)
	var full bytes.Buffer
	_, err := db.Backup(t.Context(), &full, stoat.BackupOptions{})
	testkit.Must(t, err)
	_, err = stoat.Restore(t.Context(), "/restored", stoat.RestoreOptions{Options: &stoat.Options{FS: disk}}, &full)
	testkit.Must(t, err)
	restored, err := stoat.Open("/restored", &stoat.Options{FS: disk})
	testkit.Must(t, err)
	check("restored", restored)
	testkit.Must(t, restored.Close())
	testkit.Must(t, replica.Close())
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	check("without tombstones", db)
	testkit.Must(t, db.Close())
}

// A program that deletes the end of its keys over and over must not fill half of a
// memtable each time: a range without an end takes no more than one with an end.
func TestRangeDeletion_WithoutAnEndTakesFewBytesOfTheLog(t *testing.T) {
	t.Parallel()
	const commits = 1000
	cost := func(hi []byte) (logged, committed int64) { // of each
		db := testkit.OpenOn(t, memfs.New(), nil)
		setKeys(t, db, "a") // the log is there
		before := db.Stats()
		for i := range commits {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(testkit.Key(i), hi) }))
		}
		after := db.Stats()
		testkit.Must(t, db.Close())
		return (after.Log.BytesWritten - before.Log.BytesWritten) / commits, (after.CommittedBytes - before.CommittedBytes) / commits
	}
	logged, committed := cost(nil)
	loggedTo, committedTo := cost([]byte("key-z"))
	if logged > loggedTo || committed > committedTo {
		t.Errorf("a deletion without an end took %d bytes of the log, with an end %d; %d bytes and %d were committed",
			logged, loggedTo, committed, committedTo)
	}
}

// What a snapshot keeps of such a deletion lies in tables, which the manifest
// names by their bounds.
func TestRangeDeletion_WithoutAnEndTakesFewBytesOfTablesAndManifest(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(memfs.New())
	var edits atomic.Int64 // bytes
	faults.Observe(func(op vfs.Op) {
		if op.Kind == vfs.OpWrite && op.Category == vfs.CatManifest {
			edits.Add(op.Len)
		}
	})
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	setKeys(t, db, "a b c")
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("b"), nil) }))
	edits.Store(0)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if s := db.Stats(); s.Tables != 1 || s.TableBytes > 16<<10 || edits.Load() > 16<<10 {
		t.Errorf("%d tables of %d bytes, %d bytes of edits", s.Tables, s.TableBytes, edits.Load())
	}
	wantKeys(t, "before the deletion", tx, "a b c")
	tx.Discard()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		wantKeys(t, "after it", tx, "a")
		return nil
	}))
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestRangeDeletion_WithoutAnEndHidesTheLastKeyWhereverItIs(t *testing.T) {
	t.Parallel()
	for _, m := range moves {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			disk := memfs.New()
			db := testkit.OpenOn(t, disk, nil)
			setKeys(t, db, "a b c "+string(lastKey))
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("b"), nil) }))
			setKeys(t, db, "c")
			_, db = m.move(t, disk, db)
			testkit.Must(t, db.View(func(tx stoat.Txn) error {
				wantKeys(t, "afterwards", tx, "a c")
				_, err := tx.Get(lastKey)
				testkit.WantError(t, "the last key", err, stoat.ErrNotFound)
				return nil
			}))
			testkit.MustBeSound(t, db)
			testkit.Must(t, db.Close())
		})
	}
}

func TestRangeDeletion_WithoutAnEndIsCutByMerges(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	testkit.SetKeys(t, db, 0, 5000, 100, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(testkit.Key(1000), nil) }))
	testkit.SetKeys(t, db, 3000, 6000, 100, 2)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	if n := db.Stats().Tables; n < 3 {
		t.Errorf("%d tables, want some", n)
	}
	testkit.MustBeSound(t, db)
	count := 0
	for range tx.All() {
		count++
	}
	if count != 5000 || tx.Err() != nil {
		t.Errorf("the snapshot before it sees %d keys, error %v", count, tx.Err())
	}
	tx.Discard()
	for range 2 {
		if n := len(itemsOf(t, db)); n != 4000 {
			t.Errorf("%d keys, want 4000", n)
		}
		testkit.Must(t, db.Close())
		db = testkit.OpenOn(t, disk, nil)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
}

func TestRangeDeletion_RefusesBadRanges(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	long := make([]byte, stoat.MaxKeySize+2)
	testkit.WantError(t, "long lo", tx.DeleteRange(long, nil), stoat.ErrKeyTooLarge)
	testkit.WantError(t, "long hi", tx.DeleteRange(nil, long), stoat.ErrKeyTooLarge)
	tx.Discard()
	testkit.WantError(t, "ended", tx.DeleteRange(nil, nil), stoat.ErrTxnDone)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		testkit.WantError(t, "read-only", tx.DeleteRange(nil, nil), stoat.ErrReadOnly)
		return nil
	}))
	testkit.Must(t, db.Close())
	testkit.WantError(t, "closed", db.DropAll(t.Context()), stoat.ErrClosed)
}

func TestRangeDeletion_UpToTheSmallestKeyDeletesNothing(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	smallest := []byte{0}
	for _, ks := range []*stoat.Keyspace{nil, keyspace(t, db, "a")} {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).Set(smallest, []byte("v")) }))
		before := newest(t, db)
		for _, lo := range [][]byte{nil, {}} {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).DeleteRange(lo, smallest) }))
			b := db.NewBatch(stoat.BatchOptions{})
			testkit.Must(t, b.In(ks).DeleteRange(lo, smallest))
			testkit.Must(t, b.Commit())
		}
		if after := newest(t, db); after != before {
			t.Errorf("the deletions of nothing made %d commits", after-before)
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			_, err := tx.In(ks).Get(smallest)
			return err
		}))
	}
}

func TestAllVersions_ShowsWhatARangeDeletionHides(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	setKeys(t, db, "a b")
	deleteRange(t, db, "a", "b")
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		var got []string
		for it.Next() {
			got = append(got, fmt.Sprintf("%s#%d", it.Key(), it.Item().Version()))
		}
		if s := strings.Join(got, " "); s != "a#1 b#1" {
			t.Errorf("versions are %s", s)
		}
		return it.Err()
	}))
	testkit.Must(t, db.Close())
}

// The greatest key is like any other, also where everything is deleted.
func TestAllVersions_ShowsTheDeletionOfTheLastKey(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(nil, nil) }))
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Delete(lastKey) }))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(stoat.IterOptions{AllVersions: true})
		defer it.Close()
		if !it.Next() || !it.Item().Deleted() || it.Item().Version() != 2 || len(it.Key()) != len(lastKey) {
			t.Error("the deletion is not shown")
		}
		return it.Err()
	}))
}

func TestAllVersions_ShowsOnlyWrittenKeys(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	setKeys(t, db, "a")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(nil, nil) }))
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		testkit.Must(t, tx.DeleteRange(nil, nil))
		for _, o := range []stoat.IterOptions{{AllVersions: true}, {AllVersions: true, Reverse: true}} {
			got, err := testkit.ScanAll(tx, o)
			if err != nil || len(got) != 1 {
				t.Errorf("%d versions are shown of one that was written, error %v", len(got), err)
			}
		}
		return nil
	}))
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		got, err := testkit.ScanAll(tx, stoat.IterOptions{AllVersions: true, Since: 1})
		if err != nil || len(got) != 0 {
			t.Errorf("%d versions are shown since the only one, error %v", len(got), err)
		}
		return nil
	}))
}

func TestRangeDeletion_ManyNestedOverManyTables(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.MemtableSize = 64 << 10 })
	const keys = 3000
	rng := rand.New(rand.NewPCG(3, 4))
	want := make(map[string]string)
	for round := range 120 {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for range 30 {
				k, v := testkit.Key(rng.IntN(keys)), fmt.Sprintf("%d-%0200d", round, rng.Uint32())
				if err := tx.Set(k, []byte(v)); err != nil {
					return err
				}
				want[string(k)] = v
			}
			lo := rng.IntN(keys)
			hi := lo + rng.IntN(keys/20)
			for i := lo; i < hi; i++ {
				delete(want, string(testkit.Key(i)))
			}
			return tx.DeleteRange(testkit.Key(lo), testkit.Key(hi))
		}, stoat.WithDurability(stoat.Buffered)))
		if round%40 == 39 {
			sameItems(t, db, want)
		}
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	sameItems(t, db, want)
	testkit.MustBeSound(t, db)
	testkit.Must(t, db.Close())
	db = testkit.OpenOn(t, disk, nil)
	sameItems(t, db, want)
	testkit.Must(t, db.Close())
}

func sameItems(t *testing.T, db *stoat.DB, want map[string]string) {
	t.Helper()
	got := itemsOf(t, db)
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %.20q, want %.20q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("there are %d keys, want %d", len(got), len(want))
	}
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for i := range 3000 {
			v, err := tx.Get(testkit.Key(i))
			if w, ok := want[string(testkit.Key(i))]; ok != (err == nil) || string(v) != w {
				t.Fatalf("get %s: %.20q, %v, want %.20q", testkit.Key(i), v, err, w)
			}
		}
		return nil
	}))
}
