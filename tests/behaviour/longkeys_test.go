package behaviour

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// The two keys that bound a table are in memory, whether the table is open or not.
func TestMemory_CountsTheBoundsOfTablesThatAreNotOpen(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	opts := stoat.Options{FS: disk, MemoryBudget: 1 << 20, Durability: stoat.Buffered}
	db, err := stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	long := strings.Repeat("k", 60_000)
	for i := range 200 {
		set(t, db, fmt.Sprintf("%08d%s", i, long), "v")
	}
	testkit.Must(t, db.Compact(t.Context(), stoat.CompactOptions{}))
	testkit.Must(t, db.Close())
	db, err = stoat.Open(testkit.Dir, &opts)
	testkit.Must(t, err)
	defer db.Close()
	s := db.Stats()
	if least := int64(s.Tables) * 2 * 60_000; s.Tables == 0 || s.Memory.FileHeap < least {
		t.Errorf("%d tables, and %d bytes of the heap; their bounds have %d", s.Tables, s.Memory.FileHeap, least)
	}
}
