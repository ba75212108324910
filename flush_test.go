package stoat

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
)

// A sync that is under way may fail, and then nothing of its group may be
// found in a table.
func TestMemtablesAreFlushedWhenAllInThemIsVisibleAndNotBefore(t *testing.T) {
	t.Parallel()
	d := &DB{}
	d.memory.init(1 << 20)
	defer d.memory.close()
	v := &view{tables: []*memtable.Table{d.memory.newTable(0), d.memory.newTable(0), d.memory.newTable(0), d.memory.newTable(0)}}
	// The oldest has versions up to 10, the one that takes the writes up to 40.
	for i, table := range v.tables {
		for seq := base.SeqNum(31 - 10*i); seq <= base.SeqNum(40-10*i); seq++ {
			key := fmt.Append(nil, seq)
			if err := table.Set(key, nil, base.Hash(key, 0), base.Meta{Kind: base.KindSet}, seq); err != nil {
				t.Fatal(err)
			}
		}
		defer table.Release()
	}
	for _, c := range []struct {
		visible uint64
		from    int
	}{{0, 4}, {9, 4}, {10, 3}, {11, 3}, {19, 3}, {20, 2}, {29, 2}, {30, 1}, {39, 1}, {40, 1}} {
		d.visible.Store(c.visible)
		if from := d.flushable(v); from != c.from {
			t.Errorf("version %d is visible: memtables from number %d can be flushed, want %d", c.visible, from, c.from)
		}
	}
}

func TestTablesHaveAFilterAsLongAsTheyAreInLevel0(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	flushSome(t, db)
	filters := func() (of0, others int) {
		for level, tables := range db.manifest.State().Version.Levels {
			for _, m := range tables {
				switch {
				case m.Filter != nil && level == 0:
					of0++
				case m.Filter != nil:
					others++
				}
			}
		}
		return of0, others
	}
	heap := db.view.Load().tree.FilterBytes()
	if of0, _ := filters(); of0 != 1 || heap == 0 {
		t.Errorf("%d tables of level 0 have filters, which take %d bytes", of0, heap)
	}
	for _, r := range db.tables.Residents(nil) {
		heap += r.HeapBytes()
	}
	if got, told := db.readersBytes(), db.Stats().Memory.FileHeap; got != heap || told != heap {
		t.Errorf("files take %d bytes of the heap by one count, %d by another, want %d", got, told, heap)
	}
	if due, err := db.tidy(busy); !due || err != nil {
		t.Fatalf("it sinks: %t, %v", due, err)
	}
	if of0, others := filters(); of0+others > 0 || db.view.Load().tree.FilterBytes() > 0 {
		t.Errorf("%d tables of level 0 and %d below have filters", of0, others)
	}
}
