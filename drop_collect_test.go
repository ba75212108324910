package stoat

import (
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// While a drop frees space, commits may overwrite faster than it can collect. It
// leaves what they overwrite to the collector, or it would never end.
func TestDrop_CollectsOnlyTheGarbageThatWasThereWhenItBegan(t *testing.T) {
	t.Parallel()
	others := &interposer{point: work.PointCreate}
	db, err := openWith("/db", &Options{FS: memfs.New()}, work.Executor{Manual: true, Reach: others.at})
	if err != nil {
		t.Fatal(err)
	}
	if err := leaveGarbage(db, "before"); err != nil {
		t.Fatal(err)
	}
	others.do = func() {
		if others.times > 5 {
			return
		}
		left := make(chan error)
		go func() { left <- leaveGarbage(db, fmt.Sprintf("during-%d", others.times)) }() // lock ranks count per goroutine
		if err := <-left; err != nil {
			t.Error(err)
		}
	}
	if err := db.engine.Manual.Free(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if others.times != 1 || db.Stats().ValueGarbage == 0 {
		t.Errorf("%d value files were collected, %d bytes of garbage are left; want 1, and what commits left meanwhile",
			others.times, db.Stats().ValueGarbage)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
