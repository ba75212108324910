package jobs

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/state"
)

// A sync that is under way may fail, and then no table may have anything of its
// group.
func TestFlushable_MemtablesOfWhichEverythingIsVisible(t *testing.T) {
	t.Parallel()
	v := new(state.View)
	// The oldest has versions up to 10, the one that takes the writes up to 40.
	for i := range 4 {
		table := memtable.New(memtable.Options{Memory: memtable.Heap(), ChunkSize: 4 << 10})
		defer table.Release()
		for seq := base.SeqNum(31 - 10*i); seq <= base.SeqNum(40-10*i); seq++ {
			key := fmt.Append(nil, seq)
			if err := table.Set(key, nil, base.Hash(key, 0), base.Meta{Kind: base.KindSet}, seq); err != nil {
				t.Fatal(err)
			}
		}
		v.Memtables = append(v.Memtables, table)
	}
	for _, c := range []struct {
		visible base.SeqNum
		from    int
	}{{0, 4}, {9, 4}, {10, 3}, {11, 3}, {19, 3}, {20, 2}, {29, 2}, {30, 1}, {39, 1}, {40, 1}} {
		if from := flushable(v, c.visible, flushBytes); from != c.from {
			t.Errorf("version %d is visible: memtables from number %d can be flushed, want %d", c.visible, from, c.from)
		}
	}
	if from := flushable(v, 40, 1); from != 3 {
		t.Errorf("a flush of one byte takes memtables from number %d, want only the oldest", from)
	}
}
