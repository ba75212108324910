package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestCollection_AFileThatCannotBeReadDoesNotKeepItFromTheOthers(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]func(t *testing.T, disk *faultfs.FS, path string){
		"the device fails": func(_ *testing.T, disk *faultfs.FS, path string) {
			disk.Add(faultfs.Rule{Op: vfs.OpRead, Path: path, Forever: true})
		},
		"a byte is wrong": func(t *testing.T, disk *faultfs.FS, path string) {
			f, err := disk.OpenReadWrite(path, vfs.CatValue)
			if err != nil {
				t.Fatal(err)
			}
			for off := int64(100); off < 10_000; off += 100 {
				if _, err := f.WriteAt([]byte{0xdb}, off); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run("values/"+what, func(t *testing.T) {
			t.Parallel()
			collectBesideBad(t, spoil, func(v *manifest.Version) string { return base.ValueName(v.Values[0].File) })
		})
		t.Run("tables/"+what, func(t *testing.T) {
			t.Parallel()
			collectBesideBad(t, spoil, func(v *manifest.Version) string {
				last := v.Levels[manifest.Levels-1]
				i := slices.IndexFunc(last, func(t *manifest.Table) bool {
					return slices.ContainsFunc(slices.Collect(t.Values.All()), func(ref manifest.ValueRef) bool { return ref.File == v.Values[0].Num })
				})
				return base.TableName(last[i].Num)
			})
		})
	}
}

// collectBesideBad collects the garbage of three value files, while the file of the
// given name is spoiled, on which the first of them depends.
func collectBesideBad(t *testing.T, spoil func(t *testing.T, disk *faultfs.FS, path string), name func(*manifest.Version) string) {
	t.Helper()
	disk := faultfs.New(memfs.New())
	failures := 0
	db, err := inside.Open("/db", &stoat.Options{FS: disk, Events: func(e stoat.Event) {
		if _, ok := e.(stoat.BackgroundError); ok {
			failures++
		}
	}}, work.Executor{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range []string{"a", "b", "c"} {
		if err := leaveGarbage(db, keys); err != nil {
			t.Fatal(err)
		}
	}
	bad := db.Engine.Store.Version().Values[0]
	if bad.Live == 0 || bad.Live == bad.Bytes {
		t.Fatalf("%d of %d bytes are live", bad.Live, bad.Bytes)
	}
	spoil(t, disk, disk.Join("/db", name(db.Engine.Store.Version())))
	for range 3 {
		collectAllDue(t, db)
	}
	if got, want := db.Stats().ValueGarbage, int64(bad.Bytes-bad.Live); got != want {
		t.Errorf("%d bytes of garbage are left, want %d of the file that is bad", got, want)
	}
	shape := db.Engine.Jobs.Shape(work.Busy, db.Engine.Store.Horizon())
	if u := db.Engine.Jobs.Use(db.Engine.Store.Version(), base.SeqNumMax, shape); u.Garbage != 0 {
		t.Errorf("commits are slowed down for %d bytes of garbage that stay", u.Garbage)
	}
	err = db.Collect(t.Context())
	if !errors.Is(err, vfs.ErrIO) && !errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("Collect says %v", err)
	}
	err = db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(nil, nil) })
	if err == nil {
		err = db.Engine.Commits.Rotate(true)
	}
	if err == nil {
		_, err = db.Engine.Jobs.FlushNext()
	}
	if err == nil {
		err = db.Compact(t.Context(), stoat.CompactOptions{})
	}
	if err != nil {
		t.Error(err)
	}
	if n := db.Stats().Values; n != 0 {
		t.Errorf("%d value files are left of nothing", n)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if failures != 1 {
		t.Errorf("%d failures were reported, want 1", failures)
	}
}

// collectAllDue collects until nothing is due.
func collectAllDue(t *testing.T, db *inside.DB) {
	t.Helper()
	for n := 0; ; n++ {
		due, err := db.Engine.Collector.Tidy(true, new(collect.LiveSet))
		if err != nil || n == 20 {
			t.Fatalf("after %d collections: %v", n, err)
		}
		if !due {
			return
		}
	}
}

func TestCollection_ACallerOfCollectIsToldOfClose(t *testing.T) {
	t.Parallel()
	picked := func() {}
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: func(p work.Point) {
		if p == work.PointPicked {
			picked()
		}
	}})
	testkit.Must(t, err)
	testkit.Must(t, leaveGarbage(db, "key"))
	closed := make(chan error, 1)
	var once sync.Once
	picked = func() {
		once.Do(func() {
			go func() { closed <- db.Close() }()
			<-db.Engine.Group.Stopped().Done() // by then it refuses transactions
		})
	}
	if err := db.Collect(t.Context()); !errors.Is(err, stoat.ErrClosed) {
		t.Errorf("Collect says %v, want %v", err, stoat.ErrClosed)
	}
	testkit.Must(t, <-closed)
}

// A longWalk is a database with one value file that is half garbage. What is live
// in the file takes a walk over all tables.
type longWalk struct {
	t    *testing.T
	db   *inside.DB
	disk *faultfs.FS
}

// walkTables is about how many bytes the tables of a longWalk have.
const walkTables = 2000 * (4 << 10)

func newLongWalk(t *testing.T) *longWalk {
	t.Helper()
	const keys, keyLen, values = 2000, walkTables / 2000, 40
	w := &longWalk{t: t, disk: faultfs.New(memfs.New())}
	var err error
	w.db, err = inside.Open("/db", &stoat.Options{FS: w.disk}, work.Executor{Manual: true})
	testkit.Must(t, err)
	update := func(n int, write func(tx stoat.Txn, i int) error) {
		t.Helper()
		testkit.Must(t, w.db.Update(func(tx stoat.Txn) (err error) {
			for i := 0; i < n && err == nil; i++ {
				err = write(tx, i)
			}
			return err
		}))
		mustFlush(t, w.db)
	}
	apart := func(i int) []byte { return fmt.Appendf(nil, "%06d.0", i*keys/values) }
	update(keys, func(tx stoat.Txn, i int) error {
		return tx.Set(fmt.Appendf(nil, "%06d-%0*d", i, keyLen, i), []byte("in the table"))
	})
	update(values, func(tx stoat.Txn, i int) error { return tx.Set(apart(i), bytes.Repeat([]byte{byte(i)}, 1000)) })
	update(values/2, func(tx stoat.Txn, i int) error { return tx.Delete(apart(2*i + 1)) })
	testkit.Must(t, mergeAll(w.db))
	if n := len(w.db.Engine.Store.Version().Values); n != 1 {
		t.Fatalf("%d value files, want 1", n)
	}
	return w
}

// stopped runs a collection and calls stop when it has begun to read tables. It
// fails if much is read of them after that.
func (w *longWalk) stopped(stop func(), collect func() error) error {
	w.t.Helper()
	before, after := int64(0), int64(0)
	w.disk.Observe(func(op vfs.Op) {
		if op.Kind != vfs.OpRead || op.Category != vfs.CatTable {
			return
		}
		if before += op.Len; before < 1<<20 {
			return
		}
		if stop != nil {
			stop()
			stop = nil
			return
		}
		after += op.Len
	})
	err := collect()
	w.disk.Observe(nil)
	if stop != nil {
		w.t.Fatalf("%d bytes of tables were read in all", before)
	}
	if after > walkTables/4 {
		w.t.Errorf("%d bytes of tables were read after the collection was to end", after)
	}
	return err
}

// A walk over tables that may be as large as the tree finds what is live in a value
// file.
func TestCollect_EndsWithItsContextWhileItLooksForLiveValues(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.stopped(cancel, func() error { return w.db.Collect(ctx) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Collect says %v", err)
	}
	testkit.Must(t, w.db.Close())
}

func TestClose_DoesNotWaitForTheWalkOfACollection(t *testing.T) {
	t.Parallel()
	w := newLongWalk(t)
	closed := make(chan error, 1)
	err := w.stopped(func() {
		go func() { closed <- w.db.Close() }()
		<-w.db.Engine.Group.Stopped().Done()
	}, func() error {
		if !w.db.Engine.Group.Enter() {
			t.Fatal("the group has ended before the collection began")
		}
		defer w.db.Engine.Group.Leave()
		w.db.Engine.Activity.Note() // at rest it would wait for readers
		_, err := w.db.Engine.Collector.Step()
		return err
	})
	if !errors.Is(err, work.ErrStopped) {
		t.Errorf("the collector says %v", err)
	}
	testkit.Must(t, <-closed)
}

// While a drop frees space, commits may overwrite faster than it can collect. It
// leaves what they overwrite to the collector, or it would never end.
func TestDrop_CollectsOnlyTheGarbageThatItHasMade(t *testing.T) {
	t.Parallel()
	others := &interposer{point: work.PointCreate}
	db, err := inside.Open("/db", &stoat.Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: others.at})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for n := range 40 {
			testkit.Must(t, tx.Set(fmt.Appendf(nil, "before-%02d", n), make([]byte, db.Settings().ValueThreshold)))
		}
		return nil
	}))
	testkit.Must(t, rotateAndFlush(db))
	lo, hi := []byte("before-10"), []byte("before-30")
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(lo, hi) }))
	testkit.Must(t, rotateAndFlush(db))
	collected := 0
	others.do = func() {
		// Before the collection, the drop makes a file of the merge.
		if db.Stats().ValueGarbage == 0 {
			return
		}
		if collected++; collected > 5 {
			return
		}
		left := make(chan error)
		go func() { left <- leaveGarbage(db, fmt.Sprintf("during-%d", collected)) }() // lock ranks count per goroutine
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	testkit.Must(t, db.Engine.Manual.Free(t.Context(), lo, hi))
	if collected != 1 || db.Stats().ValueGarbage == 0 {
		t.Errorf("%d value files were collected, %d bytes of garbage are left; want 1, and what commits left meanwhile",
			collected, db.Stats().ValueGarbage)
	}
	testkit.Must(t, db.Close())
}
