package behaviour

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// tableWith returns the path of a table that has the text, and its content.
func tableWith(t *testing.T, disk *memfs.FS, text string) (path, content string) {
	t.Helper()
	for name, content := range testkit.FilesOf(t, disk, testkit.Dir) {
		if strings.HasSuffix(name, ".table") && strings.Contains(content, text) {
			return disk.Join(testkit.Dir, name), content
		}
	}
	t.Fatalf("no table has %s", text)
	return "", ""
}

// spoilTableWith changes a byte in the middle of a table that has the text.
func spoilTableWith(t *testing.T, disk *memfs.FS, text string) {
	t.Helper()
	path, content := tableWith(t, disk, text)
	spoiled := []byte(content)
	spoiled[len(spoiled)/3] ^= 1
	testkit.Must(t, disk.Remove(path))
	testkit.Must(t, testkit.WriteFile(disk, path, spoiled))
}

// What one table that cannot be read keeps from being merged is what lies over it.
// Other keys are merged as ever, and it is said once what is wrong.
func TestDamagedTable_OtherKeysAreStillMerged(t *testing.T) {
	t.Parallel()
	t.Run("a byte is wrong", func(t *testing.T) {
		t.Parallel()
		mergeBesideBad(t, stoat.ErrCorrupt, func(t *testing.T, disk *memfs.FS, _ *faultfs.FS) {
			spoilTableWith(t, disk, "a-000000")
		})
	})
	t.Run("the device fails", func(t *testing.T) {
		t.Parallel()
		mergeBesideBad(t, vfs.ErrIO, func(t *testing.T, disk *memfs.FS, faults *faultfs.FS) {
			path, _ := tableWith(t, disk, "a-000000")
			faults.Add(faultfs.Rule{Op: vfs.OpRead, Path: path, Forever: true})
		})
	})
}

// mergeBesideBad has tables merged of which spoil makes the first one unreadable,
// which has keys with a alone; a later one may have some with a and some with b.
// want is what reading it says.
func mergeBesideBad(t *testing.T, want error, spoil func(t *testing.T, disk *memfs.FS, faults *faultfs.FS)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		faults := faultfs.New(disk)
		setSome := func(db *stoat.DB, prefix string, from int) {
			for ; from < 3000; from += 50 {
				testkit.Must(t, db.Update(func(tx stoat.Txn) error {
					for i := range 50 {
						if err := tx.Set(fmt.Appendf(nil, "%s-%06d", prefix, from+i), make([]byte, 100)); err != nil {
							return err
						}
					}
					return nil
				}, stoat.WithDurability(stoat.Buffered)))
			}
		}
		db := testkit.OpenOn(t, disk, nil)
		setSome(db, "a", 0)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		setSome(db, "b", 0)
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Close())
		spoil(t, disk, faults)

		var log testkit.EventLog
		db = testkit.OpenOn(t, disk, func(o *stoat.Options) { o.FS, o.Events = faults, log.Add })
		for i := range 8 {
			setSome(db, "a", 50*i) // meets the damage
			setSome(db, "b", 0)
			setSome(db, "c", 0)
		}
		time.Sleep(time.Minute)
		level0 := db.Stats().Levels[0]
		// No more than lies over the table. Flushes of one pass over its keys do not overlap, so
		// they may stay as they are.
		if level0.Bytes > 400_000 || level0.Runs > 8 {
			t.Errorf("%d bytes are left in level 0 in %d runs", level0.Bytes, level0.Runs)
		}
		if n := testkit.CountEvents[stoat.BackgroundError](&log); n != 1 {
			t.Errorf("%d errors of background work, want the one of the damaged table", n)
		}
		compactions := db.Stats().Compactions
		time.Sleep(time.Hour)
		if more := db.Stats().Compactions - compactions; more != 0 {
			t.Errorf("%d more merges in an hour", more)
		}
		if err := db.Compact(t.Context(), stoat.CompactOptions{}); !errors.Is(err, want) {
			t.Errorf("Compact says %v of a table that cannot be read", err)
		}
		testkit.Must(t, db.View(func(tx stoat.Txn) error {
			for _, key := range []string{"b-000000", "b-002999", "c-000000"} {
				if v, err := tx.Get([]byte(key)); err != nil || !bytes.Equal(v, make([]byte, 100)) {
					t.Errorf("%s: %d bytes, %v", key, len(v), err)
				}
			}
			return nil
		}))
		testkit.Must(t, db.Close())
	})
}

// A keepsAll is a filter, which makes compactions of the last level worth their while.
type keepsAll struct{}

func (keepsAll) Name() string { return "keeps all" }

func (keepsAll) Filter([]byte, *stoat.FilterValue) (stoat.FilterDecision, []byte) {
	return stoat.FilterKeep, nil
}

// A merge goes around the damaged table. A deleted range behind that table does not belong to
// the tables before it.
func TestDamagedTable_ADeletedRangeBehindItIsMerged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		setSome := func(db *stoat.DB, prefix string) {
			testkit.Must(t, db.Update(func(tx stoat.Txn) (err error) {
				for i := 0; i < 50 && err == nil; i++ {
					err = tx.Set(fmt.Appendf(nil, "%s-%06d", prefix, i), make([]byte, 100))
				}
				return err
			}, stoat.WithDurability(stoat.Buffered)))
		}
		db := testkit.OpenOn(t, disk, nil)
		setSome(db, "m")
		testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
		testkit.Must(t, db.Close())
		spoilTableWith(t, disk, "m-000000")
		var log testkit.EventLog
		db = testkit.OpenOn(t, disk, func(o *stoat.Options) {
			o.Events, o.Filters, o.Filter = log.Add, []stoat.Filter{keepsAll{}}, keepsAll{}.Name()
		})
		for range 4 {
			setSome(db, "m") // meets the damage
			time.Sleep(time.Minute)
		}
		before := testkit.CountEvents[stoat.BackgroundError](&log)
		reader := testkit.Begin(t, db, stoat.ReadOnly) // keeps the deletion
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.DeleteRange([]byte("x"), []byte("y")) }))
		setSome(db, "y")
		_, err := db.IngestEntries(t.Context(), func(yield func(stoat.Entry, error) bool) {
			for i := 0; i < 100 && yield(stoat.Entry{Key: fmt.Appendf(nil, "b-%06d", i), Value: make([]byte, 100)}, nil); i++ {
			}
		}, stoat.IngestOptions{})
		testkit.Must(t, err)
		time.Sleep(10 * time.Minute)
		if n := testkit.CountEvents[stoat.BackgroundError](&log) - before; n > 0 {
			t.Errorf("%d merges failed", n)
		}
		reader.Discard()
		time.Sleep(10 * time.Minute)
		for _, key := range []string{"b-000000", "y-000049"} {
			testkit.Must(t, db.View(func(tx stoat.Txn) error { _, err := tx.Get([]byte(key)); return err }))
		}
		testkit.Must(t, db.Close())
	})
}
