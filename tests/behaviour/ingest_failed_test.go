package behaviour

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The sync of the first file fails while the second one is written.
func TestIngest_AFailedOneLeavesNoFileOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		cat   vfs.Category
		bytes int
		n     int
	}{
		{"tables", vfs.CatTable, 400, 8000},           // 3 tables of about a megabyte
		{"value files", vfs.CatValue, 60 << 10, 3000}, // 2 value files
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memfs.New()
				faults := faultfs.New(disk)
				db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 128 << 10, Compression: stoat.CompressionNone,
					ValueThreshold: 1 << 10})
				testkit.Must(t, err)
				testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("x"), nil) }))
				synctest.Wait() // for the preparation of the log
				goroutines, used := runtime.NumGoroutine(), disk.UsedBytes()
				const times = 3
				value := make([]byte, c.bytes)
				for range times {
					faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: c.cat, Nth: 1})
					_, err = db.Ingest(context.Background(), func(yield func(k, v []byte) bool) {
						for i := range c.n {
							if !yield(testkit.Key(i), value) {
								return
							}
						}
					}, stoat.IngestOptions{})
					testkit.WantError(t, "ingest", err, faultfs.ErrInjected)
					faults.Clear()
				}
				synctest.Wait()
				if now := runtime.NumGoroutine(); now > goroutines+1 {
					t.Errorf("%d goroutines before, %d after %d failed ingests", goroutines, now, times)
				}
				if now := disk.UsedBytes(); now > used+(1<<20) {
					t.Errorf("the disk had %d bytes in use before, and %d after %d failed ingests", used, now, times)
				}
				testkit.Must(t, db.Close())
				if now := disk.UsedBytes(); now > used+(1<<20) {
					t.Errorf("the disk has %d bytes in use after Close", now)
				}
			})
		})
	}
}

// The manifest fails while the context of an ingest ends. Only ErrFailed says that the entries may
// be in the database.
func TestIngest_TellsThatItMayBeInTheDatabase(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults, MemtableSize: 128 << 10})
	testkit.Must(t, err)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("x"), nil) }))
	ctx, cancel := context.WithCancel(t.Context())
	_, err = db.Ingest(ctx, func(yield func(k, v []byte) bool) {
		if !yield([]byte("ingested"), []byte("value")) {
			return
		}
		testkit.Must(t, db.Sync())
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{})) // nothing is left to flush
		faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest, Nth: 1, Sync: vfs.SyncKept})
		faults.Observe(func(op vfs.Op) {
			if op.Kind == vfs.OpSyncData && op.Category == vfs.CatManifest {
				cancel() // a deadline that passes while the device hangs
			}
		})
	}, stoat.IngestOptions{})
	failed := errors.Is(err, stoat.ErrFailed)
	_ = db.Close()
	again, e := stoat.Open(testkit.Dir, &stoat.Options{FS: disk.Crash(memfs.KeepNone, nil), MemtableSize: 128 << 10})
	testkit.Must(t, e)
	testkit.Must(t, again.View(func(tx stoat.Txn) error {
		there, err := tx.Has([]byte("ingested"))
		if there && !failed {
			t.Error("the ingest failed without ErrFailed, and its entry is in the database")
		}
		return err
	}))
	testkit.Must(t, again.Close())
}

// No later ingest and no commit can succeed, so that the first error must tell.
func TestIngest_ThatCannotSyncTheDirectoryReturnsErrFailed(t *testing.T) {
	t.Parallel()
	faults := faultfs.New(memfs.New())
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	set := func() error {
		return db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("x"), nil) })
	}
	testkit.Must(t, set())
	faults.Add(faultfs.Rule{Op: vfs.OpSyncDir})
	_, err = db.Ingest(t.Context(), func(yield func(k, v []byte) bool) { yield([]byte("ingested"), nil) }, stoat.IngestOptions{})
	testkit.WantError(t, "the ingest", err, stoat.ErrFailed)
	testkit.WantError(t, "the ingest", err, vfs.ErrIO) // why
	testkit.WantError(t, "a commit after it", set(), stoat.ErrFailed)
	testkit.WantError(t, "Close", db.Close(), stoat.ErrFailed)
}
