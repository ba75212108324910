package memtable

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestTieredMemoryReturnsBlocksToWhereTheyCameFrom(t *testing.T) {
	t.Parallel()
	small, large := newCounting(), newCounting()
	mem := Tiered(small, large, 4<<10)
	table := New(Options{Memory: mem, ChunkSize: 256, Keep: 1 << 10})
	for range 3 {
		for i := range 500 {
			k := benchKey(nil, uint64(i))
			if err := table.Set(k, benchValue, hashOf(k), base.Meta{Kind: base.KindSet}, 0); err != nil {
				t.Fatal(err)
			}
		}
		if small.held() == 0 || large.held() == 0 || small.held()+large.held() != table.Bytes() {
			t.Fatalf("%d bytes of small and %d of large blocks, the table says %d", small.held(), large.held(), table.Bytes())
		}
		table.Reset()
		if large.held() != 0 || small.held() > 4<<10 {
			t.Fatalf("after Reset: %d bytes of small and %d of large blocks", small.held(), large.held())
		}
	}
	table.Release()
	if small.held()+large.held() != 0 {
		t.Fatal("blocks are out after Release")
	}
}
