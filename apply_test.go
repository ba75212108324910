package stoat

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// scarce is memory of which there may be none.
type scarce struct {
	memtable.Memory
	none atomic.Bool
}

var errScarce = errors.New("no memory")

func (s *scarce) Alloc(n int) ([]byte, error) {
	if s.none.Load() {
		return nil, errScarce
	}
	return s.Memory.Alloc(n)
}

func TestACommitForWhichThereIsNoMemoryLeavesNoTraceAndStopsNoOther(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := openStillOn(t, fs)
	set := func(key string) error {
		return db.Update(func(tx *Txn) error { return tx.Set([]byte(key), make([]byte, 1000)) })
	}
	mustOK(t, set("before"))
	memory := &scarce{Memory: &offHeap{}}
	db.memory.tables = memtable.NewPool(memory, 0)
	mustOK(t, db.rotate()) // the next memtable is of that memory
	memory.none.Store(true)
	if err := set("none"); !errors.Is(err, errScarce) {
		t.Fatalf("%v, want %v", err, errScarce)
	}
	memory.none.Store(false)
	mustOK(t, set("after"))
	mustOK(t, db.Close())

	db = openStillOn(t, fs)
	mustOK(t, db.View(func(tx *Txn) error {
		for key, want := range map[string]error{"before": nil, "none": ErrNotFound, "after": nil} {
			if _, err := tx.Get([]byte(key)); err != want {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		}
		return nil
	}))
}

// What is counted decides when a memtable is flushed so that collection learns
// what its values replaced.
func TestValuesWrittenApartCountForTheMemtableThatRefersToThem(t *testing.T) {
	t.Parallel()
	db, err := openDriven("/db", &Options{FS: memfs.New(), MemtableSize: 1 << 20}, still{})
	mustOK(t, err)
	set := func(entries, size int) {
		mustOK(t, db.Update(func(tx *Txn) error {
			for i := range entries {
				if err := tx.Set(fmt.Append(nil, i), make([]byte, size)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	want := func(what string, tables int, apart int64) {
		t.Helper()
		if n := len(db.view.Load().tables); n != tables {
			t.Errorf("%s: %d memtables, want %d", what, n, tables)
		}
		if got := db.commits.apart.Load() >> 20; got != apart {
			t.Errorf("%s: %d MiB apart, want %d", what, got, apart)
		}
	}
	set(1, 3<<20)
	want("the first", 1, 3)
	set(1, 3<<20)
	want("more than one memtable may refer to", 2, 3)
	set(700, 1<<10)
	want("a transaction that is a memtable", 4, 0)
	mustOK(t, db.Close())
}
