package behaviour

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func TestErrFailed_EndsAllWritingAfterAFailedWrite(t *testing.T) {
	t.Parallel()
	large := make([]byte, 2<<20) // goes to a value file, which the manifest gets to know
	for name, c := range map[string]struct {
		rule  faultfs.Rule
		value []byte
		first bool // the commit that makes the log
	}{
		"sync of the log":                     {rule: faultfs.Rule{Op: vfs.OpSyncData, Path: "000001.log"}},
		"write of the log":                    {rule: faultfs.Rule{Op: vfs.OpWrite, Path: "000001.log"}},
		"manifest of a new log":               {rule: faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest}, first: true},
		"manifest of values that lie apart":   {rule: faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest}, value: large},
		"name of a new log":                   {rule: faultfs.Rule{Op: vfs.OpSyncDir}, first: true},
		"names of values that lie apart":      {rule: faultfs.Rule{Op: vfs.OpSyncDir}, value: large},
		"sync of the log, for a large commit": {rule: faultfs.Rule{Op: vfs.OpSyncData, Path: "000001.log"}, value: large},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := faultfs.New(memfs.New())
			opts := &stoat.Options{FS: faults}
			db, err := stoat.Open(testkit.Dir, opts)
			testkit.Must(t, err)
			set := func(key string, value []byte) error {
				return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte(key), value) })
			}
			if !c.first {
				testkit.Must(t, set("before", nil))
			}
			rule := faults.Add(c.rule)
			failed := func(what string, err error) {
				t.Helper()
				testkit.WantError(t, what, err, stoat.ErrFailed)
				testkit.WantError(t, what, err, vfs.ErrIO) // why
			}
			failed("the commit that failed", set("meanwhile", c.value))
			if rule.Fired() != 1 {
				t.Fatalf("%d calls failed, want 1", rule.Fired())
			}
			failed("the next commit", set("after", nil))
			failed("a deletion", db.Update(func(tx stoat.Txn) error { return tx.Delete([]byte("before")) }))
			failed("Sync", db.Sync())
			if !c.first { // there is something to flush
				failed("Checkpoint", db.Checkpoint(t.Context(), testkit.CopyDir))
			}
			has := func(key string) (ok bool) {
				testkit.Must(t, db.View(func(tx stoat.Txn) (err error) { ok, err = tx.Has([]byte(key)); return err }))
				return ok
			}
			if has("before") == c.first || has("meanwhile") || has("after") {
				t.Error("readers do not see what was committed before, or see more")
			}
			failed("Close", db.Close())

			db, err = stoat.Open(testkit.Dir, opts)
			testkit.Must(t, err)
			if has("before") == c.first || has("after") {
				t.Error("what was committed before is gone, or what was refused is there")
			}
			testkit.Must(t, set("after", nil))
			testkit.Must(t, db.Close())
		})
	}
}

// After a failed write of the manifest it is unknown what it refers to, so no file goes. Jobs
// that went on would fill the disk. After a failed sync of the directory, no job can succeed.
func TestErrFailed_OfTheManifestOrTheDirectoryEndsTheJobs(t *testing.T) {
	t.Parallel()
	set := func(db *stoat.DB, i int) error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set(testkit.Key(i), make([]byte, 1000)) }, stoat.WithDurability(stoat.Buffered))
	}
	for name, fail := range map[string]func(t *testing.T, db *stoat.DB, arm func()) error{
		"flush": func(t *testing.T, db *stoat.DB, arm func()) (err error) {
			arm()
			for i := 1; err == nil && i < 10_000; i++ {
				err = set(db, i)
			}
			return err
		},
		"compaction": func(t *testing.T, db *stoat.DB, arm func()) error {
			testkit.Must(t, set(db, 0))
			flushed := sync.OnceFunc(arm)
			return db.Compact(t.Context(), stoat.CompactOptions{Progress: func(stoat.CompactProgress) { flushed() }})
		},
		"keyspace": func(t *testing.T, db *stoat.DB, arm func()) error {
			arm()
			_, err := db.Keyspace("name", nil)
			return err
		},
		"collection": func(t *testing.T, db *stoat.DB, arm func()) error {
			for i := 0; db.Stats().ValueGarbage == 0 && i < 10_000; i++ {
				testkit.Must(t, set(db, i%400))
			}
			synctest.Wait()
			arm()
			return db.Collect(t.Context())
		},
	} {
		for what, failing := range map[string]faultfs.Rule{
			"manifest":  {Op: vfs.OpSyncData, Category: vfs.CatManifest},
			"directory": {Op: vfs.OpSyncDir},
		} {
			if name == "keyspace" && what == "directory" {
				continue // a keyspace has no files of its own
			}
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					disk := memfs.New()
					faults := faultfs.New(disk)
					db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: testkit.SmallMemtable})
					testkit.Must(t, err)
					defer func() { _ = db.Close() }() // after a failure of the test
					for i := range 800 {
						testkit.Must(t, set(db, i%400))
					}
					testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
					var rule *faultfs.Fault
					err = fail(t, db, func() { rule = faults.Add(failing) })
					testkit.WantError(t, "the job, or a commit after it", err, stoat.ErrFailed)
					if rule == nil || rule.Fired() != 1 {
						t.Fatal("no call failed")
					}
					files := func() int {
						synctest.Wait()
						names, err := disk.List(testkit.Dir)
						testkit.Must(t, err)
						return len(names)
					}
					before := files()
					time.Sleep(5 * time.Minute)
					if after := files(); after > before {
						t.Errorf("five minutes later, %d files have become %d", before, after)
					}
					testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
				})
			})
		}
	}
}

func TestErrFailed_EndsAFeedOnceItHasEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		faults := faultfs.New(memfs.New())
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
		testkit.Must(t, err)
		setKeys(t, db, "before")
		wantEnd := func(what string) {
			last := uint64(0)
			for c, err := range db.Subscribe(t.Context(), feed.Options{}) {
				if err != nil {
					testkit.WantError(t, what, err, stoat.ErrFailed)
					continue
				}
				last = c.Version
			}
			if last != 1 {
				t.Errorf("%s ends after version %d, want 1", what, last)
			}
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			wantEnd("a feed that waits")
		}()
		synctest.Wait()
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Path: "000001.log"})
		err = db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("meanwhile"), nil) })
		testkit.WantError(t, "the commit that failed", err, stoat.ErrFailed)
		<-ended
		wantEnd("a feed that begins later")
		testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
	})
}

func TestErrFailed_OfTheNameOfAnotherLogSegmentEndsTheCommits(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 64 << 20}) // no flush syncs the directory
	testkit.Must(t, err)
	set := func() error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), make([]byte, 10_000)) }, stoat.WithDurability(stoat.Buffered))
	}
	testkit.Must(t, set())
	rule := faults.Add(faultfs.Rule{Op: vfs.OpSyncDir})
	for i := 0; err == nil && i < 5000; i++ {
		err = set()
	}
	if rule.Fired() == 0 {
		t.Fatal("the log needed no further segment")
	}
	testkit.WantError(t, "a commit after the segments that had names", err, stoat.ErrFailed)
	testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
}

// No commit comes after the failure, so that Close is the first to tell.
func TestErrFailed_IsTheErrorOfACloseThatCannotWrite(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]faultfs.Rule{
		"sync of the log":           {Op: vfs.OpSyncData, Category: vfs.CatLog},
		"write of the log":          {Op: vfs.OpWrite, Category: vfs.CatLog},
		"sync of the manifest":      {Op: vfs.OpSyncData, Category: vfs.CatManifest},
		"last sync of the manifest": {Op: vfs.OpSyncData, Category: vfs.CatManifest, Nth: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // the flusher writes nothing meanwhile
				faults := faultfs.New(memfs.New())
				db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
				testkit.Must(t, err)
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), nil) }, stoat.WithDurability(stoat.Buffered)))
				failing := faults.Add(rule)
				err = db.Close()
				testkit.WantError(t, "Close", err, stoat.ErrFailed)
				testkit.WantError(t, "Close", err, vfs.ErrIO) // why
				if failing.Fired() != 1 {
					t.Errorf("%d calls failed, want 1", failing.Fired())
				}
			})
		})
	}
}

func TestErrFailed_IsNotForACommitThatFailsAlone(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	set := func() error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), make([]byte, 2<<20)) })
	}
	testkit.Must(t, set())
	faults.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatValue})
	err = set()
	testkit.WantError(t, "a commit whose value file cannot be made", err, vfs.ErrIO)
	if errors.Is(err, stoat.ErrFailed) {
		t.Errorf("it is said to end all writing: %v", err)
	}
	testkit.Must(t, set())
	testkit.Must(t, db.Close())
}

func TestErrVersion_LaterFormatIsNoDamage(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string]string{"manifest": "MANIFEST-", "log": ".log"} {
		disk := testkit.NewSampleDisk(t)
		names, err := disk.List(testkit.Dir)
		testkit.Must(t, err)
		found := 0
		for _, file := range names {
			if strings.Contains(file, prefix) {
				found++
				raiseVersion(t, disk, disk.Join(testkit.Dir, file))
			}
		}
		if found == 0 {
			t.Fatalf("no file is a %s: %q", name, names)
		}
		for _, readOnly := range []bool{false, true} {
			_, err = stoat.Open(testkit.Dir, &stoat.Options{FS: disk, ReadOnly: readOnly})
			testkit.WantError(t, name, err, stoat.ErrVersion)
			if errors.Is(err, stoat.ErrCorrupt) {
				t.Errorf("%s: a later version is taken for damage: %v", name, err)
			}
		}
	}
}

// raiseVersion raises the format version in both headers of a file of records.
func raiseVersion(t *testing.T, disk *memfs.FS, path string) {
	t.Helper()
	f, err := disk.OpenReadWrite(path, vfs.CatNone)
	testkit.Must(t, err)
	for _, at := range []int64{0, 4096} {
		header := make([]byte, 56)
		_, err := f.ReadAt(header, at)
		testkit.Must(t, err)
		header[8]++
		binary.LittleEndian.PutUint64(header[48:], base.Checksum(header[:48], uint64(at)))
		_, err = f.WriteAt(header, at)
		testkit.Must(t, err)
	}
	testkit.Must(t, f.Close())
}
