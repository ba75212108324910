package behaviour

import (
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The writer cannot remove the manifest that a follower reads. It writes two newer ones, and
// removes the first of them.
func TestFollower_KnowsThatItsManifestIsOldAlthoughItIsStillThere(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	faults := faultfs.New(disk)
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: faults})
	testkit.Must(t, err)
	defer db.Close()
	set(t, db, "a", "1")
	f := follow(t, disk)
	wantKey(t, f, "a", "1")
	faults.Add(faultfs.Rule{Op: vfs.OpRemove, Path: manifest.FileName(1), Forever: true})
	third := disk.Join(testkit.Dir, manifest.FileName(3))
	for ttl := time.Second; ; ttl += time.Second {
		_, err := db.Keyspace("keyspace", &stoat.KeyspaceOptions{DefaultTTL: ttl})
		testkit.Must(t, err)
		if _, err := disk.Stat(third); err == nil {
			break
		}
	}
	set(t, db, "a", "2")
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	keyspace(t, db, "new")
	set(t, db, "a", "3")
	testkit.Must(t, f.Refresh(t.Context()))
	wantKey(t, f, "a", "3")
	_, err = f.Keyspace("new", nil)
	testkit.Must(t, err)
}
