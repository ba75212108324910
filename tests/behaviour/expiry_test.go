package behaviour

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A clockRun is a database with a clock that the test turns.
type clockRun struct {
	t     *testing.T
	clock *testkit.Clock
	opts  stoat.Options
	db    *stoat.DB
}

func newClockRun(t *testing.T) *clockRun {
	r := &clockRun{t: t, clock: testkit.NewClock()}
	r.opts = stoat.Options{FS: memfs.New(), Clock: r.clock}
	r.open()
	return r
}

func (r *clockRun) open() {
	r.t.Helper()
	var err error
	r.db, err = stoat.Open(testkit.Dir, &r.opts)
	testkit.Must(r.t, err)
}

func (r *clockRun) reopen() {
	r.t.Helper()
	testkit.Must(r.t, r.db.Close())
	r.open()
}

func (r *clockRun) set(key string, opts ...stoat.SetOption) {
	r.t.Helper()
	testkit.Must(r.t, r.db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), []byte("value"), opts...) }))
}

// has asks in every way whether a key is there.
func (r *clockRun) has(key string) bool {
	r.t.Helper()
	var has bool
	testkit.Must(r.t, r.db.View(func(tx stoat.Txn) error {
		var err error
		if has, err = tx.Has([]byte(key)); err != nil {
			return err
		}
		_, err = tx.Get([]byte(key))
		if has != (err == nil) || err != nil && !errors.Is(err, stoat.ErrNotFound) {
			r.t.Errorf("Has says %v, Get says %v", has, err)
		}
		for _, reverse := range []bool{false, true} {
			items, err := testkit.ScanAll(tx, stoat.IterOptions{Prefix: []byte(key), Reverse: reverse})
			if err != nil || has != (len(items) == 1) {
				r.t.Errorf("Has says %v, a scan (reverse %v) shows %v, error %v", has, reverse, items, err)
			}
		}
		return nil
	}))
	return has
}

// want demands that a key is there or not.
func (r *clockRun) want(key string, want bool, when string) {
	r.t.Helper()
	if r.has(key) != want {
		r.t.Errorf("%s, %s: there is %v, want %v", key, when, !want, want)
	}
}

func (r *clockRun) at(ms int64) { r.clock.Ms.Store(testkit.ClockStart + ms) }

func TestExpiry_IsExactToTheMillisecond(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("1ms", stoat.TTL(time.Millisecond))
	r.set("1ns", stoat.TTL(1))
	r.set("1.5ms", stoat.TTL(1500*time.Microsecond))
	r.set("2s", stoat.TTL(2*time.Second))
	r.set("at 7", stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart+7)))
	r.set("fraction", stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart+7).Add(200*time.Microsecond)))
	r.set("past", stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart-1)))
	r.set("before 1970", stoat.ExpiresAt(time.Unix(-5, 0)))
	r.set("negative", stoat.TTL(-time.Second))
	r.set("zero", stoat.TTL(0))
	r.set("forever")
	lives := map[string]int64{
		"1ms": 1, "1ns": 1, "1.5ms": 2, "2s": 2000, "at 7": 7, "fraction": 8,
		"past": 0, "before 1970": 0, "negative": 0, "zero": 0, "forever": math.MaxInt64,
	}
	for _, now := range []int64{0, 1, 2, 6, 7, 8, 1999, 2000, 1 << 40} {
		r.at(now)
		for key, end := range lives {
			r.want(key, now < end, fmt.Sprintf("at %d ms", now))
		}
		if now == 2 {
			r.reopen()
		}
	}
	testkit.Must(t, r.db.Close())
}

func TestExpiry_FarFutureDoesNotOverflow(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("longest", stoat.TTL(math.MaxInt64))
	r.set("last second", stoat.ExpiresAt(time.Unix(math.MaxInt64/1000, 0)))
	r.set("last time", stoat.ExpiresAt(time.Unix(math.MaxInt64-62135596801, 0)))
	r.set("long ago", stoat.ExpiresAt(time.Unix(math.MinInt64/1000-1, 0)))
	r.set("year 9999", stoat.ExpiresAt(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	r.at(1000)
	r.want("longest", true, "a second later")
	r.want("last second", true, "a second later")
	r.want("last time", true, "a second later")
	r.want("long ago", false, "a second later")
	r.want("year 9999", true, "a second later")
	r.clock.Ms.Store(math.MaxInt64)
	r.want("year 9999", false, "at the end of time")
	r.reopen()
	r.want("year 9999", false, "at the end of time, reopened")
	testkit.Must(t, r.db.Close())
}

func TestExpiry_ExpiredKeyNeverReturns(t *testing.T) {
	t.Parallel()
	for what, between := range map[string]func(*clockRun){
		"nothing":          func(*clockRun) {},
		"another commit":   func(r *clockRun) { r.set("other") },
		"a clean close":    (*clockRun).reopen,
		"two clean closes": func(r *clockRun) { r.reopen(); r.at(-50); r.reopen() },
		"a kill":           func(r *clockRun) { r.crash((*memfs.FS).Clone) },
		"a power cut": func(r *clockRun) {
			r.crash(func(m *memfs.FS) *memfs.FS { return m.Crash(memfs.KeepNone, nil) })
		},
		"a commit and a kill": func(r *clockRun) { r.set("other"); r.crash((*memfs.FS).Clone) },
		"a synced commit and a power cut": func(r *clockRun) {
			r.set("other")
			r.crash(func(m *memfs.FS) *memfs.FS { return m.Crash(memfs.KeepNone, nil) })
		},
	} {
		r := newClockRun(t)
		r.set("k", stoat.TTL(10*time.Millisecond))
		r.at(10)
		r.want("k", false, "expired, then "+what)
		between(r)
		for _, ms := range []int64{9, 0, -1_000_000, 5, 11} {
			r.at(ms)
			r.want("k", false, fmt.Sprintf("after %s, clock at %d", what, ms))
		}
		testkit.Must(t, r.db.Close())
	}
}

// crash abandons the database and opens what cut makes of its disk.
func (r *clockRun) crash(cut func(*memfs.FS) *memfs.FS) {
	r.t.Helper()
	disk := cut(r.opts.FS.(*memfs.FS))
	testkit.Must(r.t, r.db.Close())
	r.opts.FS = disk
	r.open()
}

func TestExpiry_CheckpointKnowsTheTimeItWasMade(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("k", stoat.TTL(10*time.Millisecond))
	testkit.Must(t, r.db.Compact(t.Context(), stoat.CompactOptions{}))
	r.at(20)
	testkit.Must(t, r.db.Checkpoint(t.Context(), testkit.CopyDir)) // nothing is flushed for it
	testkit.Must(t, r.db.Close())
	r.at(0)
	var err error
	r.db, err = stoat.Open(testkit.CopyDir, &r.opts)
	testkit.Must(t, err)
	r.want("k", false, "in a copy that was made 20 ms later than the clock says now")
	testkit.Must(t, r.db.Close())
}

func TestExpiry_TimeToLiveCountsFromTheHighestTimeSeen(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.at(1000)
	r.set("other")
	r.at(0) // a second back
	r.set("k", stoat.TTL(10*time.Millisecond))
	r.want("k", true, "just written")
	r.at(1009)
	r.want("k", true, "9 ms after the highest time")
	r.at(1010)
	r.want("k", false, "10 ms after the highest time")
	testkit.Must(t, r.db.Close())
}

func TestExpiry_TransactionJudgesAllByOneTime(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("k", stoat.TTL(10*time.Millisecond))
	tx, err := r.db.Begin(stoat.ReadOnly)
	testkit.Must(t, err)
	defer tx.Discard()
	for range 3 {
		if ok, err := tx.Has([]byte("k")); err != nil || !ok {
			t.Errorf("the key left an open snapshot: %v", err)
		}
		r.clock.Ms.Add(10)
	}
	r.want("k", false, "in a new transaction")
	tx.Discard()
	testkit.Must(t, r.db.Close())
}

func TestExpiry_ClockBefore1970(t *testing.T) {
	t.Parallel()
	r := &clockRun{t: t, clock: new(testkit.Clock)}
	r.clock.Ms.Store(-1000)
	r.opts = stoat.Options{FS: memfs.New(), Clock: r.clock}
	r.open()
	r.set("k", stoat.TTL(10*time.Millisecond))
	r.want("k", true, "before 1970")
	r.clock.Ms.Store(11)
	r.want("k", false, "11 ms after 1970")
	r.reopen()
	r.want("k", false, "reopened")
	testkit.Must(t, r.db.Close())
}

// TestExpiry_OverwriteDropsIt holds that a Set without a TTL forgets the one
// before, and that a deletion of an expired key is a deletion.
func TestExpiry_OverwriteDropsIt(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("k", stoat.TTL(10*time.Millisecond))
	r.set("k")
	r.set("short")
	r.set("short", stoat.TTL(10*time.Millisecond))
	r.at(20)
	r.want("k", true, "overwritten without a TTL")
	// The version below the expired one must not show.
	r.want("short", false, "overwritten with a TTL that has passed")
	r.reopen()
	r.want("k", true, "overwritten without a TTL, reopened")
	r.want("short", false, "overwritten with a TTL that has passed, reopened")
	testkit.Must(t, r.db.Close())
}

// The time that a database has seen is kept beside its commits in the log, and
// must stay when a flush lets go of that part of the log: in the very edit
// that does so, because a crash may be next.
func TestExpiry_LastsWhenTheLogIsGoneAndTheClockGoesBack(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*clockRun){
		"a power cut right after the flush": func(r *clockRun) {
			testkit.Must(t, r.db.Compact(t.Context(), stoat.CompactOptions{}))
			if r.db.Stats().Flushes == 0 {
				t.Fatal("nothing was flushed")
			}
			r.crash(func(m *memfs.FS) *memfs.FS { return m.Crash(memfs.KeepNone, nil) })
		},
		"a clean close that flushes": func(r *clockRun) {
			flushes := r.db.Stats().Flushes
			r.reopen()
			if flushes != 0 || r.db.Stats().Tables == 0 {
				t.Fatal("it was not Close that flushed")
			}
		},
	} {
		r := newClockRun(t)
		r.set("passing", stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart+10)))
		// A transaction for which the key lives, so that the flush takes it along.
		tx, err := r.db.Begin(stoat.ReadOnly)
		testkit.Must(t, err)
		r.at(20)
		// So much that the log moves to a new segment when it is flushed.
		testkit.SetKeys(t, r.db, 0, 8000, 400, 1)
		r.at(0)
		end(r)
		tx.Discard()
		r.want("passing", false, "20 ms, "+what+", and 20 ms back")
		testkit.Must(t, r.db.Close())
	}
}

func TestExpiry_ReadersOnAFullDiskDoNotWriteTheTimeForEachKey(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	for i := range 100 {
		r.set(fmt.Sprintf("passing-%03d", i), stoat.ExpiresAt(time.UnixMilli(testkit.ClockStart+10)))
	}
	r.set("staying")
	// Nothing proves the last edit of the manifest after a power cut, so that it
	// has to be written anew.
	left := r.opts.FS.(*memfs.FS).Crash(memfs.KeepNone, nil)
	testkit.Must(t, r.db.Close())
	faults := faultfs.New(left)
	refused := faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatManifest, Forever: true, Err: vfs.ErrNoSpace})
	r.opts.FS = faults
	r.open()
	opening := refused.Fired()
	if opening == 0 {
		t.Fatal("the manifest was not to be written anew")
	}
	r.at(20)
	r.want("passing", false, "on a full disk")
	r.want("staying", true, "on a full disk")
	if tries := refused.Fired() - opening; tries > 2 {
		t.Errorf("%d attempts to write the manifest for one moment", tries)
	}
	faults.Clear()
	testkit.Must(t, r.db.Close())
}

func TestExpiry_ATimeToLiveOfNothingIsOverAtOnceForTheTransactionItself(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("other", stoat.TTL(time.Hour))
	r.set("renewed")
	testkit.Must(t, r.db.Update(func(tx stoat.Txn) error {
		if _, err := tx.Get([]byte("other")); err != nil { // fixes the time of the transaction
			return err
		}
		r.at(10)
		if err := errors.Join(tx.Set([]byte("set"), nil, stoat.TTL(0)), tx.Renew([]byte("renewed"), stoat.TTL(0))); err != nil {
			return err
		}
		for _, key := range []string{"set", "renewed"} {
			if has, err := tx.Has([]byte(key)); has || err != nil {
				t.Errorf("%s: has %t, %v", key, has, err)
			}
		}
		return nil
	}))
	r.want("set", false, "after the commit")
	r.want("renewed", false, "after the commit")
	testkit.Must(t, r.db.Close())
}

func TestExpiry_AnExpiredValueIsDeletedOnlyForAllVersionsOnceAJobHasRemovedIt(t *testing.T) {
	t.Parallel()
	r := newClockRun(t)
	r.set("k")
	testkit.Must(t, r.db.Compact(t.Context(), stoat.CompactOptions{}))
	r.set("k", stoat.TTL(10*time.Millisecond))
	r.at(20)
	for _, removed := range []bool{false, true} {
		if removed { // by a flush, whose tombstone hides the version below
			testkit.Must(t, r.db.Compact(t.Context(), stoat.CompactOptions{Lower: []byte("z")}))
		}
		testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
			it := tx.Iterator(stoat.IterOptions{AllVersions: true})
			if !it.Next() || it.Item().Deleted() != removed || len(it.Value()) > 0 == removed {
				t.Errorf("removed %t: Deleted %t, value %q, error %v", removed, it.Item().Deleted(), it.Value(), it.Err())
			}
			return it.Close()
		}))
	}
	testkit.Must(t, r.db.Close())
}

// A transaction reads the value below many operands. If that value expires before the commit,
// the operands must neither be lost with it nor bring it back.
func TestExpiry_ManyOperandsOfATransactionStartFromNothingOnceTheValueHasExpired(t *testing.T) {
	t.Parallel()
	key := []byte("k")
	for name, renew := range map[string]bool{"merged": false, "merged and renewed": true} {
		r := newClockRun(t)
		testkit.Must(t, r.db.Close())
		f := plain{merge.Append}
		r.opts.MergeFunctions, r.opts.MergeFunction = []stoat.MergeFunction{f}, f.Name()
		r.open()
		for _, operands := range []int{64, 65, 100} {
			r.set("k", stoat.TTL(5*time.Second))
			runs := 0
			testkit.Must(t, r.db.Update(func(tx stoat.Txn) (err error) {
				for i := 0; i < operands && err == nil; i++ {
					err = tx.Merge(key, []byte("x"))
				}
				if err == nil && renew {
					err = tx.Renew(key, stoat.TTL(time.Hour))
				}
				if runs++; runs == 1 {
					r.clock.Ms.Add(8000)
					r.want("k", false, name+": 8 s later")
				}
				return err
			}, stoat.Retries(3)))
			r.clock.Ms.Add(1000)
			testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
				if v, err := tx.Get(key); err != nil || string(v) != strings.Repeat("x", operands) {
					t.Errorf("%s, %d operands: the value is %q, %v", name, operands, v, err)
				}
				return nil
			}))
		}
		testkit.Must(t, r.db.Close())
	}
}

// A transaction takes its time at its first operand or renewal. Its commit may come later. The
// clocks of tests often start near 1970, where the varint of a time soon becomes longer.
func TestExpiry_CommitBringsBackNothingThatExpiredSinceItsTransactionBegan(t *testing.T) {
	t.Parallel()
	type writer interface {
		Merge(key, operand []byte) error
		Renew(key []byte, expiry stoat.SetOption) error
		Commit(opts ...stoat.CommitOption) error
	}
	starts := []int64{testkit.ClockStart}
	for _, bits := range []int{7, 14, 21, 28, 35} {
		starts = append(starts, 1<<bits-28)
	}
	for name, begin := range map[string]func(db *stoat.DB) writer{
		"batch":       func(db *stoat.DB) writer { return db.NewBatch(stoat.BatchOptions{}) },
		"transaction": func(db *stoat.DB) writer { return testkit.Begin(t, db, stoat.ReadWrite) },
	} {
		for _, start := range starts {
			name := fmt.Sprintf("%s at %d", name, start)
			r := &clockRun{t: t, clock: testkit.NewClock()}
			r.clock.Ms.Store(start)
			r.opts = stoat.Options{FS: memfs.New(), Clock: r.clock,
				MergeFunctions: []stoat.MergeFunction{merge.Counter}, MergeFunction: merge.Counter.Name()}
			r.open()
			r.set("renewed", stoat.TTL(50*time.Millisecond))
			testkit.Must(t, r.db.Update(func(tx stoat.Txn) error {
				return tx.Set([]byte("counter"), merge.Add(41), stoat.TTL(50*time.Millisecond))
			}))
			w := begin(r.db)
			testkit.Must(t, w.Merge([]byte("counter"), merge.Add(1)))
			testkit.Must(t, w.Renew([]byte("renewed"), stoat.TTL(time.Hour)))
			r.clock.Ms.Add(100)
			r.want("renewed", false, name+": 100 ms later")
			r.want("counter", false, name+": 100 ms later")
			testkit.Must(t, w.Commit())
			for range 2 {
				r.want("renewed", false, name+": after the renewal")
				testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
					value, err := tx.Get([]byte("counter"))
					if n, _ := merge.Count(value); err != nil || n != 1 {
						t.Errorf("%s: the counter is %d, %v, want 1", name, n, err)
					}
					return nil
				}))
				r.reopen()
			}
			testkit.Must(t, r.db.Close())
		}
	}
}

// A transaction applies a step at once to a value whose expiry time it has set itself.
func TestExpiry_AStepOverAnOwnValueThatExpiresBeforeTheCommitIsAConflict(t *testing.T) {
	t.Parallel()
	key, x := []byte("k"), []byte("x")
	soon, late := stoat.TTL(5*time.Second), stoat.TTL(time.Hour)
	many := func(tx stoat.Txn) (err error) { // more than a transaction keeps without reading the key
		for i := 0; i < 65 && err == nil; i++ {
			err = tx.Merge(key, x)
		}
		return err
	}
	xs := strings.Repeat("x", 65)
	for name, c := range map[string]struct {
		write func(tx stoat.Txn) error
		fits  string // the value after a commit in time
		later string // the value after a commit when soon is over; empty is a conflict
	}{
		"set, merge": {func(tx stoat.Txn) error { return errors.Join(tx.Set(key, x, soon), tx.Merge(key, x)) }, "xx", ""},
		"set, renew": {func(tx stoat.Txn) error { return errors.Join(tx.Set(key, x, soon), tx.Renew(key, late)) }, "x", ""},
		"set, renew, merge": {func(tx stoat.Txn) error {
			return errors.Join(tx.Set(key, x, late), tx.Renew(key, soon), tx.Merge(key, x))
		}, "xx", ""},
		"set for long, merge": {func(tx stoat.Txn) error { return errors.Join(tx.Set(key, x, late), tx.Merge(key, x)) }, "xx", "xx"},
		"set with an expiry that is over, merge": {func(tx stoat.Txn) error {
			return errors.Join(tx.Set(key, x, stoat.TTL(-time.Second)), tx.Merge(key, x))
		}, "x", "x"},
		"merge many, renew, merge": {func(tx stoat.Txn) error { return errors.Join(many(tx), tx.Renew(key, soon), tx.Merge(key, x)) }, xs + "x", ""},
		"merge, renew, merge many": {func(tx stoat.Txn) error { return errors.Join(tx.Merge(key, x), tx.Renew(key, soon), many(tx)) }, "x" + xs, ""},
		"merge, renew, merge, renew, merge many": {func(tx stoat.Txn) error {
			return errors.Join(tx.Merge(key, x), tx.Renew(key, soon), tx.Merge(key, x), tx.Renew(key, late), many(tx))
		}, "xx" + xs, ""},
		"merge many": {many, xs, xs},
	} {
		for _, passes := range []int64{4999, 5000} { // milliseconds between the writes and the commit
			r := &clockRun{t: t, clock: testkit.NewClock()}
			f := plain{merge.Append}
			r.opts = stoat.Options{FS: memfs.New(), Clock: r.clock, MergeFunctions: []stoat.MergeFunction{f}, MergeFunction: f.Name()}
			r.open()
			tx := testkit.Begin(t, r.db, stoat.ReadWrite)
			testkit.Must(t, c.write(tx))
			r.clock.Ms.Add(passes)
			want, wantErr := c.fits, error(nil)
			if passes == 5000 {
				want = c.later
			}
			if want == "" {
				wantErr = stoat.ErrConflict
			}
			if err := tx.Commit(); err != wantErr {
				t.Errorf("%s, %d ms later: %v, want %v", name, passes, err, wantErr)
			}
			testkit.Must(t, r.db.View(func(tx stoat.Txn) error {
				if value, err := tx.Get(key); string(value) != want || (err == nil) != (want != "") {
					t.Errorf("%s, %d ms later: the value is %q, %v, want %q", name, passes, value, err, want)
				}
				return nil
			}))
			testkit.Must(t, r.db.Close())
		}
	}
}
