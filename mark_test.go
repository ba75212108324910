package stoat_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs/memfs"
)

func commitValue(db *stoat.DB, value string, opts ...stoat.CommitOption) error {
	return db.Update(func(tx *stoat.Txn) error { return tx.Set([]byte("key"), []byte(value)) }, opts...)
}

// placeInLog returns where in the log a value lies.
func placeInLog(t *testing.T, disk *memfs.FS, value string) (path string, offset int64) {
	t.Helper()
	names, err := disk.List(dbDir)
	must(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".log") {
			continue
		}
		path := disk.Join(dbDir, name)
		content, err := readFile(disk, path)
		must(t, err)
		if i := bytes.Index(content, []byte(value)); i >= 0 {
			return path, int64(i)
		}
	}
	t.Fatalf("%q is not in the log", value)
	return "", 0
}

// wantNoticed demands that a database whose process died does not open without its
// last commit.
func wantNoticed(t *testing.T, disk *memfs.FS, value, when string) {
	t.Helper()
	disk = disk.Clone()
	path, offset := placeInLog(t, disk, value)
	flipByte(t, disk, path, offset)
	db, err := stoat.Open(dbDir, &stoat.Options{FS: disk})
	if err == nil {
		must(t, db.Close())
	}
	if !errors.Is(err, stoat.ErrCorrupt) {
		t.Errorf("%s: the last commit was damaged: %v, want %v", when, err, stoat.ErrCorrupt)
	}
}

// Who commits no more, and does not close either, would lose the last commit to a
// flipped bit and not hear of it.
func TestAfterAPauseDamageToTheLastCommitIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := openOn(t, disk, nil)
		for i := range 5 {
			value := fmt.Sprintf("value number %d", i)
			must(t, commitValue(db, value))
			pause := time.Second // the pause before may not have ended for the flusher
			if i == 0 {
				pause = 200 * time.Millisecond
			}
			time.Sleep(pause)
			synctest.Wait()
			wantNoticed(t, disk, value, fmt.Sprintf("commit %d", i))
		}
		must(t, db.Close())
	})
}

func TestAfterSyncDamageToTheLastCommitIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		disk := memfs.New()
		db := openOn(t, disk, nil)
		must(t, commitValue(db, "with its commit"))
		must(t, db.Sync())
		wantNoticed(t, disk, "with its commit", "a commit that was synced")
		must(t, commitValue(db, "by the next sync", stoat.WithDurability(stoat.Buffered)))
		must(t, db.Sync())
		wantNoticed(t, disk, "by the next sync", "a commit that was buffered")
		must(t, db.Close())
	})
}
