package behaviour

import (
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The last measurement of a disk that was full does not stop a collection after its user has
// made room.
func TestCollect_MeasuresTheFreeSpaceItself(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, func(o *stoat.Options) { o.ValueThreshold = 64; o.LargeValueThreshold = 64 })
	defer func() { testkit.Must(t, db.Close()) }()
	testkit.SetKeys(t, db, 0, 300, 2000, 1)
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.DeleteKeys(t, db, 0, 30) // too little garbage for a background job
	testkit.Must(t, db.Sync())
	disk.SetCapacity(disk.UsedBytes() + 400<<10)
	// A compaction of a range finds the garbage, and measures the free space after its edit.
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{Upper: testkit.Key(200)}))
	disk.SetCapacity(1 << 40)
	if err := db.Collect(t.Context()); err != nil {
		t.Error(err)
	}
}
