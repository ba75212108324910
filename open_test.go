package stoat

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The disk has room for a log, and none for a larger manifest to name it.
func TestOpen_ALogThatTheManifestHasNoRoomForLeavesNoFiles(t *testing.T) {
	t.Parallel()
	fs := faultfs.New(memfs.New())
	set := func(db *DB) error {
		return db.Update(func(tx Txn) error { return tx.Set([]byte("k"), []byte("v")) })
	}
	db := openStillOn(t, fs)
	mustOK(t, set(db))
	mustOK(t, db.Close())

	db = openStillOn(t, fs)
	fs.Add(faultfs.Rule{Op: vfs.OpCreate, Category: vfs.CatManifest, Forever: true, Err: vfs.ErrNoSpace})
	var full error
	for next := db.engine.Manifest.State().NextFile; full == nil; next++ {
		full = db.engine.Manifest.Append(manifest.Edit{NextFile: manifest.Some(next)})
	}
	logs := func() (n int) {
		names, err := fs.List("/db")
		mustOK(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				n++
			}
		}
		return n
	}
	before := logs()
	for range 40 {
		if err := set(db); !errors.Is(err, ErrNoSpace) {
			t.Fatalf("a commit without a log: %v, want %v", err, ErrNoSpace)
		}
	}
	if after := logs(); after != before {
		t.Errorf("%d log files, %d before the commits that failed", after, before)
	}
	fs.Clear()
	mustOK(t, set(db))
}
