package behaviour

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A table whose edit is lost gives its number to a table of the next writer. The follower has
// decoded blocks of the first one.
func TestFollower_BlocksOfATableThatIsLostAreNotThoseOfTheNextOne(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	open := func(fs vfs.FS) *stoat.DB {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs, Compression: stoat.CompressionFast})
		testkit.Must(t, err)
		return db
	}
	write := func(db *stoat.DB, letter string) {
		testkit.Must(t, db.Update(func(tx stoat.Txn) error {
			for i := range 100 {
				if err := tx.Set(fmt.Appendf(nil, "key%03d", i), []byte(strings.Repeat(letter, 300))); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	db := open(faults)
	write(db, "a")
	testkit.Must(t, db.Sync())
	path := disk.Join(testkit.Dir, manifest.FileName(1))
	before, err := testkit.ReadFile(disk, path)
	testkit.Must(t, err)
	f := follow(t, disk)

	// The flush is in the manifest, but its sync fails.
	faults.Add(faultfs.Rule{Op: vfs.OpSyncData, Category: vfs.CatManifest, Forever: true, Sync: vfs.SyncNotTried})
	if err := db.Compact(t.Context(), stoat.CompactOptions{}); err == nil {
		t.Fatal("the sync of the manifest did not fail")
	}
	testkit.Must(t, f.Refresh(t.Context()))
	wantKey(t, f, "key050", strings.Repeat("a", 300))
	if f.Stats().Tables != 1 || f.Stats().Memory.Decoded == 0 {
		t.Fatalf("the follower has not decoded blocks of a table: %+v", f.Stats())
	}
	_ = db.Close() // it fails
	file, err := disk.OpenReadWrite(path, vfs.CatManifest)
	testkit.Must(t, err)
	_, err = file.WriteAt(before, 0)
	testkit.Must(t, errors.Join(err, file.Close()))

	testkit.Must(t, open(disk).Close()) // removes the file of the table

	db = open(disk)
	defer db.Close()
	testkit.Must(t, f.Refresh(t.Context()))
	write(db, "b")
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, f.Refresh(t.Context()))
	wantKey(t, f, "key050", strings.Repeat("b", 300))
}
