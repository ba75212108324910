package behaviour

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A program that lives for less than a second and never closes its database leaves a segment
// of the log in each run.
func TestKills_LogsOfShortRunsDoNotPileUp(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	for range 200 {
		db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: disk})
		testkit.Must(t, err)
		testkit.Must(t, db.Update(func(tx stoat.Txn) error { return tx.Set([]byte("key"), []byte("value")) }))
		killed := disk.Clone()
		testkit.Must(t, db.Close())
		disk = killed
	}
	if used := disk.UsedBytes(); used > 16<<20 {
		t.Errorf("one key takes %d KiB", used>>10)
	}
}
