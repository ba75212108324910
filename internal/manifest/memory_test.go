package manifest

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// Not parallel: it measures the heap of the process.
func TestMemory_TheSnapshotDoesNotStay(t *testing.T) {
	state := firstState()
	var edit Edit
	for i := range 200 {
		key := func(n int) []byte { return fmt.Appendf(nil, "%08d%s", n, strings.Repeat("k", 20_000)) }
		edit.AddTables = append(edit.AddTables, &Table{Num: base.FileNum(i + 1), Level: Levels - 1, Size: 1 << 20, Salt: 1,
			Entries: 10, Smallest: key(2 * i), Largest: key(2*i + 1), SmallestSeq: 1, LargestSeq: 1})
	}
	edit.NextFile, edit.LastSeq, edit.FlushedSeq = Some(uint64(1000)), Some(base.SeqNum(1)), Some(base.SeqNum(1))
	state, err := state.Apply(edit)
	must(t, err)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	dir := t.TempDir() // memory of a simulated disk would count
	before := heap()
	s, err := Create(vfs.OS(), dir, state, rand.Uint64, nil)
	must(t, err)
	if kept := heap() - before; kept > 1<<20 {
		t.Errorf("the manifest keeps %d bytes of memory for a snapshot that is written", kept)
	}
	must(t, s.Append(Edit{ClockHighMs: Some(uint64(1 << 40))}))
	must(t, s.Close())
	runtime.KeepAlive(state)
}
