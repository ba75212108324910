package stoat

import (
	"testing"

	"github.com/stoatdb/stoat/internal/work"
)

func TestFilter_TablesHaveOneAsLongAsTheyAreInLevel0(t *testing.T) {
	t.Parallel()
	db := openStill(t)
	flushSome(t, db)
	filters := func() (of0, others int) {
		for level, tables := range db.engine.Store.Version().Levels {
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
	heap := db.engine.Store.View().Tree.FilterBytes()
	if of0, _ := filters(); of0 != 1 || heap == 0 {
		t.Errorf("%d tables of level 0 have filters, which take %d bytes", of0, heap)
	}
	for _, r := range db.engine.Store.Files().Residents(nil) {
		heap += r.HeapBytes()
	}
	if got, told := db.engine.Store.ReaderBytes(nil), db.Stats().Memory.FileHeap; got != heap || told != heap {
		t.Errorf("files take %d bytes of the heap by one count, %d by another, want %d", got, told, heap)
	}
	if due, err := db.engine.Jobs.Tidy(work.Busy); !due || err != nil {
		t.Fatalf("it sinks: %t, %v", due, err)
	}
	if of0, others := filters(); of0+others > 0 || db.engine.Store.View().Tree.FilterBytes() > 0 {
		t.Errorf("%d tables of level 0 and %d below have filters", of0, others)
	}
}
