package behaviour

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestTimestamps_GoWithoutMergeFunctionAndFilter(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	for _, o := range []stoat.KeyspaceOptions{{MergeFunction: "add"}, {Filter: "old"}} {
		o.Timestamps = stoat.TimestampsChecked
		_, err := db.Keyspace("refused", &o)
		testkit.WantError(t, "Keyspace", err, stoat.ErrInvalid)
	}
	timed(t, db)
}

// timed opens the keyspace "timed", whose timestamps are checked.
func timed(t *testing.T, db *stoat.DB) *stoat.Keyspace {
	t.Helper()
	ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.Must(t, err)
	return ks
}

// An edited manifest gives timestamps to a keyspace whose keys have none.
func TestTimedIterator_ReportsStoredKeysWithoutATimestamp(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	ks, err := db.Keyspace("timed", nil)
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range 20 {
			if err := tx.In(ks).Set([]byte{'a' + byte(i)}, []byte("x")); err != nil {
				return err
			}
		}
		return nil
	}))
	testkit.Must(t, db.Close())
	editManifest(t, disk, manifest.Edit{PutKeyspaces: []*manifest.Keyspace{
		{Number: 1, Name: "timed", Settings: manifest.Settings{Timestamps: manifest.TimestampsChecked}}}})
	db = testkit.OpenOn(t, disk, nil)
	ks = timed(t, db)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for _, o := range []stoat.IterOptions{{}, {Reverse: true}, {AllVersions: true}} {
			it := tx.In(ks).At(1).Iterator(o)
			for range 20 {
				if it.Next() {
					t.Errorf("%+v shows %q", o, it.Key())
				}
			}
			testkit.WantError(t, fmt.Sprintf("%+v", o), it.Close(), stoat.ErrCorrupt)
		}
		return nil
	}))
	testkit.Must(t, db.Close())
}

// put commits versions of the form "key at value"; an empty value deletes.
func put(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, versions ...string) {
	t.Helper()
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for _, v := range versions {
			var key, value string
			var at uint64
			if _, err := fmt.Sscan(v+" -", &key, &at, &value); err != nil {
				return err
			}
			var err error
			if value == "-" {
				err = tx.In(ks).At(at).Delete([]byte(key))
			} else {
				err = tx.In(ks).At(at).Set([]byte(key), []byte(value))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// at tells what all keys have at a timestamp, and all versions of them.
func at(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, when uint64) (shown, all string) {
	t.Helper()
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for key, value := range tx.In(ks).At(when).All() {
			shown += fmt.Sprintf("%s=%s ", key, value)
		}
		if err := tx.Err(); err != nil {
			return err
		}
		it := tx.In(ks).At(when).Iterator(stoat.IterOptions{AllVersions: true})
		for it.Next() {
			all += fmt.Sprintf("%s@%d=%s ", it.Key(), it.Item().Timestamp(), it.Value())
		}
		return it.Close()
	}))
	return strings.TrimSpace(shown), strings.TrimSpace(all)
}

func wantAt(t *testing.T, db *stoat.DB, ks *stoat.Keyspace, when uint64, shown, all string) {
	t.Helper()
	gotShown, gotAll := at(t, db, ks, when)
	if gotShown != shown || gotAll != all {
		t.Errorf("at %d: %s (%s), want %s (%s)", when, gotShown, gotAll, shown, all)
	}
}

func TestTimestamps_VersionsArriveInAnyOrder(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	put(t, db, ks, "a 50 a50", "b 10 b10")
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	put(t, db, ks, "a 20 a20", "a 70", "b 5 b5", "a 18446744073709551615 last", "a 0 first")
	wantAt(t, db, ks, 4, "a=first", "a@0=first")
	wantAt(t, db, ks, 30, "a=a20 b=b10", "a@20=a20 a@0=first b@10=b10 b@5=b5")
	wantAt(t, db, ks, 60, "a=a50 b=b10", "a@50=a50 a@20=a20 a@0=first b@10=b10 b@5=b5")
	wantAt(t, db, ks, 70, "b=b10", "a@70= a@50=a50 a@20=a20 a@0=first b@10=b10 b@5=b5")
	wantAt(t, db, ks, math.MaxUint64, "a=last b=b10",
		"a@18446744073709551615=last a@70= a@50=a50 a@20=a20 a@0=first b@10=b10 b@5=b5")
	put(t, db, ks, "a 20 again")
	wantAt(t, db, ks, 30, "a=again b=b10", "a@20=again a@0=first b@10=b10 b@5=b5")
}

func TestTimestamps_CompactionsDropWhatIsDiscarded(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	ks := timed(t, db)
	put(t, db, ks, "a 10 a10", "a 20 a20", "a 30 a30", "a 40 a40", "b 10 b10", "b 20", "c 30 c30", "d 5", "d 45 d45")
	testkit.Must(t, ks.DiscardBelow(35))
	testkit.Must(t, ks.DiscardBelow(20)) // a lower point changes nothing
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	wantAt(t, db, ks, 99, "a=a40 c=c30 d=d45", "a@40=a40 a@30=a30 c@30=c30 d@45=d45")
	testkit.Must(t, db.Close())

	db = testkit.OpenOn(t, disk, nil)
	defer func() { testkit.Must(t, db.Close()) }()
	ks, err := db.Keyspace("timed", nil)
	testkit.Must(t, err)
	if got := ks.DiscardedBelow(); got != 35 {
		t.Errorf("after a restart, the discard point is %d, want 35", got)
	}
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	_, err = tx.In(ks).At(34).Get([]byte("a"))
	testkit.WantError(t, "a read below the discard point", err, stoat.ErrTimestampDiscarded)
	err = tx.In(ks).At(34).Set([]byte("a"), nil)
	testkit.WantError(t, "a write below the discard point", err, stoat.ErrTimestampDiscarded)
	testkit.WantError(t, "a scan below the discard point",
		tx.In(ks).At(34).Iterator(stoat.IterOptions{}).Err(), stoat.ErrTimestampDiscarded)
	testkit.Must(t, tx.In(ks).At(35).Set([]byte("a"), nil))
}

// The deletion is in the last level, and an older version comes later into a memtable.
func TestTimestamps_ADeletionStaysWhileOlderVersionsAreElsewhere(t *testing.T) {
	t.Parallel()
	db := testkit.OpenOn(t, memfs.New(), nil)
	defer func() { testkit.Must(t, db.Close()) }()
	ks := timed(t, db)
	put(t, db, ks, "a 20", "b 20 b20")
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	put(t, db, ks, "a 10 late")
	testkit.Must(t, ks.DiscardBelow(30))
	put(t, db, ks, "b 40 b40")
	for range 2 {
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("a"), Upper: []byte("b"), Keyspace: ks}))
		wantShown, _ := at(t, db, ks, 35)
		if wantShown != "b=b20" {
			t.Errorf("at 35: %s, want b=b20", wantShown)
		}
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	wantAt(t, db, ks, 99, "b=b40", "b@40=b40 b@20=b20")
}

func TestTimestamps_AnExpiredVersionHidesOlderOnes(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	ks := timed(t, r.db)
	put(t, r.db, ks, "a 10 old")
	testkit.Must(t, r.db.Update(func(tx stoat.Txn) error {
		return tx.In(ks).At(20).Set([]byte("a"), []byte("new"), stoat.TTL(time.Second))
	}))
	wantAt(t, r.db, ks, 30, "a=new", "a@20=new a@10=old")
	r.clock.Ms.Add(2000)
	for range 2 {
		if shown, _ := at(t, r.db, ks, 30); shown != "" {
			t.Errorf("after the expiry: %s, want nothing", shown)
		}
		if shown, _ := at(t, r.db, ks, 15); shown != "a=old" {
			t.Errorf("before the expired version: %s, want a=old", shown)
		}
		testkit.Must(t, r.db.Compact(t.Context(), stoat.CompactOptions{}))
	}
	testkit.Must(t, r.db.Close())
}

func TestTimestamps_OnlyChangesOfTheAnswerConflict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, written   string
		point, scan, at bool // whether a Get, a scan, and a scan of an unchecked keyspace conflict
	}{
		{"a later version", "k 60 x", false, false, false},
		{"a version at the timestamp", "k 50 x", true, true, false},
		{"a version between", "k 45 x", true, true, false},
		{"the version that was found", "k 40 x", true, true, false},
		{"an earlier version of the key", "k 30 x", false, true, false},
		{"another key", "l 45 x", false, true, false},
		{"another key, later", "l 55 x", false, false, false},
		{"a key beyond the scan", "z 45 x", false, false, false},
	} {
		for _, checked := range []stoat.Timestamps{stoat.TimestampsChecked, stoat.TimestampsUnchecked} {
			for _, scan := range []bool{false, true} {
				db := testkit.OpenMem(t)
				ks, err := db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: checked})
				testkit.Must(t, err)
				put(t, db, ks, "k 40 x", "m 10 x")
				tx := testkit.Begin(t, db, stoat.ReadWrite)
				if scan {
					for range tx.In(ks).At(50).Range([]byte("a"), []byte("x")) {
					}
				} else {
					_, err = tx.In(ks).At(50).Get([]byte("k"))
					testkit.Must(t, err)
				}
				put(t, db, ks, c.written)
				testkit.Must(t, tx.In(nil).Set([]byte("other"), nil))
				var want error
				if checked == stoat.TimestampsChecked && (scan && c.scan || !scan && c.point) {
					want = stoat.ErrConflict
				}
				if err := tx.Commit(); err != want {
					t.Errorf("%s, checked %d, scan %v: %v, want %v", c.name, checked, scan, err, want)
				}
			}
		}
	}
}

// keysAfter makes moves of an iterator, and returns the keys that these show.
func keysAfter(it stoat.TimedIterator, moves ...func() bool) (shown string) {
	for _, move := range moves {
		move()
		shown += string(it.Key())
	}
	return shown
}

// backToE are ways to read from the last key, g, back to e. The result tells what they show.
var backToE = []struct {
	name, want string
	read       func(tx stoat.TimedTxn) (shown string)
}{
	{"a loop", "ge", func(tx stoat.TimedTxn) (shown string) {
		for key := range tx.Loop(stoat.IterOptions{Reverse: true}) {
			if shown += string(key); shown == "ge" {
				break
			}
		}
		return shown
	}},
	{"an iterator that stays open", "ge", func(tx stoat.TimedTxn) string {
		it := tx.Iterator(stoat.IterOptions{Reverse: true, KeysOnly: true})
		return keysAfter(it, it.Next, it.Next)
	}},
	{"Last and Prev", "ge", func(tx stoat.TimedTxn) string {
		it := tx.Iterator(stoat.IterOptions{})
		return keysAfter(it, it.Last, it.Prev)
	}},
	{"a turn at e", "geg", func(tx stoat.TimedTxn) string {
		it := tx.Iterator(stoat.IterOptions{Reverse: true})
		return keysAfter(it, it.Next, it.Next, it.Prev)
	}},
	{"a second positioning", "geg", func(tx stoat.TimedTxn) string {
		it := tx.Iterator(stoat.IterOptions{Reverse: true})
		return keysAfter(it, it.First, it.Next, it.First)
	}},
}

// Backward, an iterator reads on to the next key before it shows one.
func TestTimestamps_ABackwardLoopConflictsOnlyWithWhatItReached(t *testing.T) {
	t.Parallel()
	type change = func(db *stoat.DB, ks *stoat.Keyspace)
	write := func(version string) change {
		return func(db *stoat.DB, ks *stoat.Keyspace) { put(t, db, ks, version) }
	}
	purge := func(lo, hi string) change {
		return func(db *stoat.DB, ks *stoat.Keyspace) {
			testkit.Must(t, db.Update(func(tx stoat.Txn) error {
				return tx.In(ks).At(1).PurgeRange([]byte(lo), []byte(hi))
			}))
		}
	}
	versions := []string{"a 10 x", "c 10 x", "e 40 x", "g 40 x", "i 60 x", "k 30"}
	more := slices.Clone(versions)
	for i := range 20 { // more versions than an iterator passes one by one
		more = append(more, fmt.Sprintf("c %d x", 11+i), fmt.Sprintf("e %d x", 11+i), fmt.Sprintf("g %d x", 61+i))
	}
	for _, c := range []struct {
		name     string
		change   change
		conflict bool
	}{
		{"a key far behind", write("a 45 x"), false},
		{"the earliest version of the key behind", write("c 10 y"), false},
		{"an earlier version of the key behind", write("c 5 x"), false},
		{"a version of the key behind", write("c 45 x"), false},
		{"a key before the last one shown", write("d 45 x"), false},
		{"a purge before the last key shown", purge("a", "e"), false},
		{"the version shown last", write("e 40 y"), true},
		{"a version after it", write("e 45 x"), true},
		{"a version of its key at the timestamp", write("e 50 x"), true},
		{"a later version of its key", write("e 55 x"), false},
		{"a purge of its key", purge("d", "e0"), true},
		{"a key between", write("f 45 x"), true},
		{"an early version of a key between", write("f 1 x"), true},
		{"a purge between", purge("f", "g"), true},
		{"a version of the first key shown", write("g 45 x"), true},
		{"an early version of a key that has a later one", write("i 1 x"), true},
		{"a version of a key that was deleted", write("k 45 x"), true},
		{"a key after all others", write("m 45 x"), true},
	} {
		for _, stored := range [][]string{versions, more} {
			for _, way := range backToE {
				db := testkit.OpenMem(t)
				ks := timed(t, db)
				put(t, db, ks, stored...)
				tx := testkit.Begin(t, db, stoat.ReadWrite)
				if shown := way.read(tx.In(ks).At(50)); shown != way.want {
					t.Fatalf("%s shows %s, want %s", way.name, shown, way.want)
				}
				c.change(db, ks)
				testkit.Must(t, tx.In(nil).Set([]byte("other"), nil))
				var want error
				if c.conflict {
					want = stoat.ErrConflict
				}
				if err := tx.Commit(); err != want {
					t.Errorf("%s, %s, %d versions: %v, want %v", c.name, way.name, len(stored), err, want)
				}
				testkit.Must(t, db.Close())
			}
		}
	}
}

func TestTimestamps_ABackwardLoopReadsTheBeginningIfItGetsThere(t *testing.T) {
	t.Parallel()
	for last, want := range map[string]error{"c": nil, "none": stoat.ErrConflict} {
		for _, all := range []bool{false, true} {
			db := testkit.OpenMem(t)
			ks := timed(t, db)
			put(t, db, ks, "c 10 x", "e 10 x")
			tx := testkit.Begin(t, db, stoat.ReadWrite)
			for key := range tx.In(ks).At(50).Loop(stoat.IterOptions{Reverse: true, AllVersions: all}) {
				if string(key) == last {
					break
				}
			}
			put(t, db, ks, "a 45 x")
			testkit.Must(t, tx.In(nil).Set([]byte("other"), nil))
			if err := tx.Commit(); err != want {
				t.Errorf("a loop that stops at %s, with all versions %v: %v, want %v", last, all, err, want)
			}
		}
	}
}

func TestTimestamps_OwnWritesAreNotRead(t *testing.T) {
	t.Parallel()
	type step = func(tx stoat.Txn, ks *stoat.Keyspace) error
	set := func(when uint64) step {
		return func(tx stoat.Txn, ks *stoat.Keyspace) error { return tx.In(ks).At(when).Set([]byte("k"), nil) }
	}
	purge := func(tx stoat.Txn, ks *stoat.Keyspace) error { return tx.In(ks).At(50).PurgeRange([]byte("a"), nil) }
	read := func(tx stoat.Txn, ks *stoat.Keyspace) error {
		_, err := tx.In(ks).At(50).Has([]byte("k"))
		return err
	}
	for _, c := range []struct {
		name, meanwhile string
		conflict        bool
		steps           []step
	}{
		{"a version at the timestamp", "k 50 x", false, []step{set(50), read}},
		{"a version below it", "k 40 x", false, []step{set(50), read}},
		{"an earlier version", "k 45 x", false, []step{set(45), read}},
		{"an earlier version, and another one above it", "k 46 x", true, []step{set(45), read}},
		{"a purge", "k 45 x", false, []step{purge, read}},
		{"a purge and a version", "k 46 x", false, []step{purge, set(45), read}},
		{"a purge after the read", "k 45 x", true, []step{read, purge}},
		{"a version after the read", "k 50 x", true, []step{read, set(50)}},
	} {
		db := testkit.OpenMem(t)
		ks := timed(t, db)
		put(t, db, ks, "k 30 x")
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		for _, do := range c.steps {
			testkit.Must(t, do(tx, ks))
		}
		put(t, db, ks, c.meanwhile)
		testkit.Must(t, tx.In(nil).Set([]byte("other"), nil))
		var want error
		if c.conflict {
			want = stoat.ErrConflict
		}
		if err := tx.Commit(); err != want {
			t.Errorf("%s, and another transaction writes %s: %v, want %v", c.name, c.meanwhile, err, want)
		}
	}
}

func TestTimestamps_IteratorsIgnoreWritesAfterTheirSeek(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	for i := range 40 { // more versions than an iterator passes one by one
		put(t, db, ks, fmt.Sprintf("a %d x", i), fmt.Sprintf("c %d x", i))
	}
	for _, reverse := range []bool{false, true} {
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		it := tx.In(ks).At(20).Iterator(stoat.IterOptions{Reverse: reverse})
		shown := ""
		for it.Next() {
			shown += fmt.Sprintf("%s@%d ", it.Key(), it.Item().Timestamp())
			for _, key := range []string{"a", "b", "c", "d"} {
				testkit.Must(t, tx.In(ks).At(20).Set([]byte(key), []byte("own")))
			}
		}
		testkit.Must(t, it.Close())
		want := "a@20 c@20 "
		if reverse {
			want = "c@20 a@20 "
		}
		if shown != want {
			t.Errorf("reverse %v: %s, want %s", reverse, shown, want)
		}
		tx.Discard()
	}
}

// An iterator searches among many versions of a key, also if the transaction has written
// before. It once passed them one by one.
func TestTimestamps_BackwardIteratorsSearchAfterAnEarlierWrite(t *testing.T) {
	t.Parallel()
	const versions = 20_000
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for when := range uint64(versions) {
			if err := tx.In(ks).At(1+when).Set([]byte("a"), []byte("v")); err != nil {
				return err
			}
		}
		return nil
	}))
	// walk returns how long an iteration takes that shows the newest version.
	walk := func(write bool) (took time.Duration) {
		tx := testkit.Begin(t, db, stoat.ReadWrite)
		defer tx.Discard()
		if write {
			testkit.Must(t, tx.Set([]byte("other"), nil))
		}
		began := time.Now()
		it := tx.In(ks).At(versions).Iterator(stoat.IterOptions{Reverse: true})
		for n := 0; it.Next(); n++ {
			if when := it.Item().Timestamp(); n > 0 || when != versions {
				t.Errorf("entry %d is at %d, want one entry at %d", n, when, versions)
			}
		}
		testkit.Must(t, it.Close())
		return time.Since(began)
	}
	without, with := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range 100 {
		without, with = min(without, walk(false)), min(with, walk(true))
	}
	if with > 20*without {
		t.Errorf("%v after a write, %v without one", with, without)
	}
}

func TestTimestamps_KeysOnlyShowsNoValuesHoweverManyVersionsThereAre(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	for when := range 40 { // more versions than an iterator passes one by one
		put(t, db, ks, fmt.Sprintf("a %d value", 1+when))
	}
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	defer tx.Discard()
	for _, reverse := range []bool{false, true} {
		it := tx.In(ks).At(100).Iterator(stoat.IterOptions{KeysOnly: true, Reverse: reverse})
		if !it.Next() || string(it.Key()) != "a" || it.Item().Timestamp() != 40 {
			t.Fatalf("reverse %v: at %q", reverse, it.Key())
		}
		value, err := it.Item().Value()
		if it.Value() != nil || value != nil || err != nil {
			t.Errorf("reverse %v: a value of %q, %q, %v", reverse, it.Value(), value, err)
		}
	}
}

func TestTimestamps_GoroutinesShareATransaction(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	for i := range 100 {
		put(t, db, ks, fmt.Sprintf("%d %d %d", i%10, i, i))
	}
	tx := testkit.Begin(t, db, stoat.ReadOnly)
	defer tx.Discard()
	var running sync.WaitGroup
	for g := range 4 {
		running.Go(func() {
			for i := range uint64(200) {
				key, when := fmt.Sprint(i%10), 40+i%50
				value, err := tx.In(ks).At(when).Get([]byte(key))
				if want := fmt.Sprint((when-i%10)/10*10 + i%10); err != nil || string(value) != want {
					t.Errorf("goroutine %d: %s at %d is %s, %v, want %s", g, key, when, value, err, want)
				}
			}
		})
	}
	running.Wait()
}

func TestTimestamps_AFailedDiscardChangesNothing(t *testing.T) {
	t.Parallel()
	disk := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
	testkit.Must(t, err)
	defer db.Close()
	ks := timed(t, db)
	put(t, db, ks, "a 10 a10", "a 20 a20")
	disk.Add(faultfs.Rule{Op: vfs.OpWrite, Category: vfs.CatManifest})
	testkit.WantError(t, "DiscardBelow", ks.DiscardBelow(20), faultfs.ErrInjected)
	if got := ks.DiscardedBelow(); got != 0 {
		t.Errorf("the discard point is %d, want 0", got)
	}
	wantAt(t, db, ks, 15, "a=a10", "a@10=a10")
}

func TestTimestamps_DropsAndPurgesTakeAllVersions(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	all := func() {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for _, key := range []string{"a", "a\x00", "a\x00b", "b", "b\x01"} {
				for _, at := range []uint64{5, 0, math.MaxUint64} {
					testkit.Must(t, tx.In(ks).At(at).Set([]byte(key), []byte("x")))
				}
			}
			return nil
		}))
	}
	shown := func() (keys string) {
		_, versions := at(t, db, ks, math.MaxUint64)
		for _, v := range strings.Fields(versions) {
			keys += strings.Split(v, "@")[0] + " "
		}
		return keys
	}
	all()
	testkit.Must(t, ks.DropPrefix(t.Context(), []byte("a\x00")))
	if got, want := shown(), "a a a b b b b\x01 b\x01 b\x01 "; got != want {
		t.Errorf("after DropPrefix: %q, want %q", got, want)
	}
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(1).PurgeRange([]byte("b"), []byte("b\x01")) }))
	if got, want := shown(), "a a a b\x01 b\x01 b\x01 "; got != want {
		t.Errorf("after PurgeRange: %q, want %q", got, want)
	}
	all()
	testkit.Must(t, ks.DropAll(t.Context()))
	if got := shown(); got != "" {
		t.Errorf("after DropAll: %q, want nothing", got)
	}
}

func TestTimestamps_MisuseIsAnError(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	plain, err := db.Keyspace("plain", nil)
	testkit.Must(t, err)
	tx := testkit.Begin(t, db, stoat.ReadWrite)
	defer tx.Discard()
	key := []byte("key")
	for what, err := range map[string]error{
		"Set without a timestamp":         tx.In(ks).Set(key, nil),
		"DeleteRange without a timestamp": tx.In(ks).DeleteRange(nil, nil),
		"an iterator without a timestamp": tx.In(ks).Iterator(stoat.IterOptions{}).Err(),
		"a timestamp in another keyspace": tx.In(plain).At(5).Set(key, nil),
		"a timestamp in the default one":  tx.At(5).Delete(key),
		"a purge in another keyspace":     tx.In(plain).At(5).PurgeRange(nil, nil),
		"Since without AllVersions":       tx.In(ks).At(5).Iterator(stoat.IterOptions{Since: 1}).Err(),
		"DiscardBelow elsewhere":          plain.DiscardBelow(5),
	} {
		testkit.WantError(t, what, err, stoat.ErrInvalid)
	}
	_, err = tx.In(ks).Get(key)
	testkit.WantError(t, "Get without a timestamp", err, stoat.ErrInvalid)
	_, err = db.Keyspace("plain", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked})
	testkit.WantError(t, "timestamps for an old keyspace", err, stoat.ErrInvalid)
	_, err = db.Keyspace("new", &stoat.KeyspaceOptions{Timestamps: 3})
	testkit.WantError(t, "unknown timestamps", err, stoat.ErrInvalid)
	_, err = db.Keyspace("timed", &stoat.KeyspaceOptions{Timestamps: stoat.TimestampsUnchecked})
	testkit.Must(t, err)
	long := make([]byte, stoat.MaxKeySize)
	testkit.WantError(t, "a key that is too long with its timestamp", tx.In(ks).At(5).Set(long, nil), stoat.ErrKeyTooLarge)
	testkit.Must(t, tx.In(ks).At(5).Set([]byte(strings.Repeat("x", stoat.MaxKeySize-10)), nil))
	tx.Discard()
	testkit.WantError(t, "a write after the end", tx.In(ks).At(5).Set(key, nil), stoat.ErrTxnDone)
	_, err = tx.In(ks).At(5).Get(key)
	testkit.WantError(t, "a read after the end", err, stoat.ErrTxnDone)
	testkit.WantError(t, "a nil iterator", stoat.TimedIterator{}.Err(), stoat.ErrTxnDone)
}

func TestTimestamps_AFullDiskRefusesDeletionsAtATimestampAndNoPurge(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	ks := timed(t, db)
	put(t, db, ks, "k 5 v")
	disk.SetCapacity(disk.UsedBytes() + 4<<20)
	err := error(nil)
	for i := 0; err == nil; i++ {
		err = db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 10_000)) })
	}
	testkit.WantError(t, "filling the disk", err, stoat.ErrNoSpace)
	long := []byte(strings.Repeat("k", 60_000))
	testkit.WantError(t, "Delete", db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(9).Delete(long) }), stoat.ErrNoSpace)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.In(ks).At(9).PurgeRange([]byte("k"), []byte("l")) }))
	disk.SetCapacity(1 << 40)
	testkit.Must(t, db.Close())
}

// timedEntries yields versions of one key, at timestamps in the given order.
func timedEntries(key string, timestamps ...uint64) iter.Seq2[stoat.Entry, error] {
	return func(yield func(stoat.Entry, error) bool) {
		for _, at := range timestamps {
			if !yield(stoat.Entry{Key: []byte(key), Value: fmt.Appendf(nil, "at %d", at), Timestamp: at}, nil) {
				return
			}
		}
	}
}

func TestIngest_VersionsOfAKeyComeWithDescendingTimestamps(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	o := stoat.IngestOptions{Keyspace: ks, Timestamp: 5}
	_, err := db.IngestEntries(t.Context(), timedEntries("a\x00key", 30, 20, 0), o)
	testkit.Must(t, err)
	_, err = db.BulkLoad(t.Context(), timedEntries("other", 10, 30, 20), o)
	testkit.Must(t, err)
	testkit.Must(t, db.View(func(tx stoat.Txn) error {
		for at, want := range map[uint64]string{5: "at 0", 19: "at 0", 20: "at 20", 29: "at 20", 99: "at 30"} {
			if v, err := tx.In(ks).At(at).Get([]byte("a\x00key")); err != nil || string(v) != want {
				t.Errorf("at %d: %q, %v, want %q", at, v, err, want)
			}
		}
		if v, err := tx.In(ks).At(15).Get([]byte("other")); err != nil || string(v) != "at 10" {
			t.Errorf("after the bulk load: %q, %v", v, err)
		}
		return nil
	}))
	for _, timestamps := range [][]uint64{{10, 20}, {20, 20}} {
		_, err := db.IngestEntries(t.Context(), timedEntries("a\x00key", timestamps...), o)
		var order *stoat.KeyOrderError
		if !errors.As(err, &order) || order.Position != 1 || string(order.Key) != "a\x00key" || string(order.Previous) != "a\x00key" ||
			order.Timestamp != 20 || order.PreviousTimestamp != timestamps[0] || strings.Contains(err.Error(), "repeats") != (timestamps[0] == 20) {
			t.Errorf("timestamps %d: %v", timestamps, err)
		}
	}
}

func TestIngest_RefusesTimestampsBelowTheDiscardPoint(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	ks := timed(t, db)
	o := stoat.IngestOptions{Keyspace: ks}
	raised := func(yield func(stoat.Entry, error) bool) { // meanwhile
		for e := range timedEntries("key", 10) {
			if !yield(e, nil) {
				return
			}
		}
		testkit.Must(t, ks.DiscardBelow(11))
	}
	for _, entries := range []iter.Seq2[stoat.Entry, error]{raised, timedEntries("key", 10)} {
		for _, load := range []func(context.Context, iter.Seq2[stoat.Entry, error], stoat.IngestOptions) (stoat.Ingested, error){db.IngestEntries, db.BulkLoad} {
			if _, err := load(t.Context(), entries, o); !errors.Is(err, stoat.ErrTimestampDiscarded) {
				t.Errorf("below the discard point: %v", err)
			}
		}
	}
	_, err := db.IngestEntries(t.Context(), timedEntries("key", 11), o)
	testkit.Must(t, err)
}

func TestIngest_ATimestampNeedsAKeyspaceWithTimestamps(t *testing.T) {
	t.Parallel()
	db := testkit.OpenMem(t)
	if _, err := db.IngestEntries(t.Context(), timedEntries("key", 10), stoat.IngestOptions{}); !errors.Is(err, stoat.ErrInvalid) {
		t.Errorf("the default keyspace takes a timestamp: %v", err)
	}
}
