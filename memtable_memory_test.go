package stoat

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// scarce is memory that gives nothing while none is set.
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

func TestCommit_WithoutMemoryLeavesNoTraceAndStopsNoOther(t *testing.T) {
	t.Parallel()
	fs := memfs.New()
	db := openStillOn(t, fs)
	set := func(key string) error {
		return db.Update(func(tx Txn) error { return tx.Set([]byte(key), make([]byte, 1000)) })
	}
	mustOK(t, set("before"))
	memory := &scarce{Memory: memtable.Heap()}
	active := memtable.New(memtable.Options{Memory: memory, ChunkSize: 64 << 10})
	db.engine.Store.AddMemtables(db.engine.Commits.Log().Current(), active)
	memory.none.Store(true)
	if err := set("none"); !errors.Is(err, errScarce) {
		t.Fatalf("%v, want %v", err, errScarce)
	}
	memory.none.Store(false)
	mustOK(t, set("after"))
	if active.Len() != 1 {
		t.Fatalf("the memtable without memory has %d entries", active.Len())
	}
	mustOK(t, db.Close())

	db = openStillOn(t, fs)
	mustOK(t, db.View(func(tx Txn) error {
		for key, want := range map[string]error{"before": nil, "none": ErrNotFound, "after": nil} {
			if _, err := tx.Get([]byte(key)); err != want {
				t.Errorf("%s: %v, want %v", key, err, want)
			}
		}
		return nil
	}))
}

// The count decides when a memtable is flushed, so that compaction learns what its
// values replaced.
func TestMemtable_ValuesWrittenApartCountForTheOneThatRefersToThem(t *testing.T) {
	t.Parallel()
	db, err := openWith("/db", &Options{FS: memfs.New(), MemtableSize: 1 << 20}, work.Executor{Manual: true})
	mustOK(t, err)
	set := func(entries, size int) {
		mustOK(t, db.Update(func(tx Txn) error {
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
		if n := len(db.engine.Store.View().Memtables); n != tables {
			t.Errorf("%s: %d memtables, want %d", what, n, tables)
		}
		if got := db.engine.Commits.HeldByActive() >> 20; got != apart {
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
