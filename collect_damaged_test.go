package stoat

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/collect"
	"github.com/stoatdb/stoat/internal/manifest"
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
					return slices.ContainsFunc(t.Values, func(ref manifest.ValueRef) bool { return ref.File == v.Values[0].Num })
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
	db, err := openWith("/db", &Options{FS: disk, Events: func(e Event) {
		if _, ok := e.(BackgroundError); ok {
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
	bad := db.engine.Store.Version().Values[0]
	if bad.Live == 0 || bad.Live == bad.Bytes {
		t.Fatalf("%d of %d bytes are live", bad.Live, bad.Bytes)
	}
	spoil(t, disk, disk.Join("/db", name(db.engine.Store.Version())))
	for range 3 {
		collectAllDue(t, db)
	}
	if got, want := db.Stats().ValueGarbage, int64(bad.Bytes-bad.Live); got != want {
		t.Errorf("%d bytes of garbage are left, want %d of the file that is bad", got, want)
	}
	if u := db.engine.Jobs.Use(db.engine.Store.Version(), base.SeqNumMax, db.engine.Store.Horizon()); u.Garbage != 0 {
		t.Errorf("commits are slowed down for %d bytes of garbage that stay", u.Garbage)
	}
	err = db.Collect(t.Context())
	if !errors.Is(err, vfs.ErrIO) && !errors.Is(err, ErrCorrupt) {
		t.Errorf("Collect says %v", err)
	}
	err = db.Update(func(tx Txn) error { return tx.DeleteRange(nil, nil) })
	if err == nil {
		err = db.engine.Commits.Rotate(true)
	}
	if err == nil {
		_, err = db.engine.Jobs.FlushNext()
	}
	if err == nil {
		err = db.Compact(t.Context(), CompactOptions{})
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
func collectAllDue(t *testing.T, db *DB) {
	t.Helper()
	for n := 0; ; n++ {
		due, err := db.engine.Collector.Tidy(true, new(collect.LiveSet))
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
	db, err := openWith("/db", &Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: func(p work.Point) {
		if p == work.PointPicked {
			picked()
		}
	}})
	mustOK(t, err)
	mustOK(t, leaveGarbage(db, "key"))
	closed := make(chan error, 1)
	var once sync.Once
	picked = func() {
		once.Do(func() {
			go func() { closed <- db.Close() }()
			<-db.engine.Group.Stopped().Done() // by then it refuses transactions
		})
	}
	if err := db.Collect(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Collect says %v, want %v", err, ErrClosed)
	}
	mustOK(t, <-closed)
}
