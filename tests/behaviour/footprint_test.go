package behaviour

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// footprint is what a process has of what a database may take.
type footprint struct {
	goroutines int
	heap       uint64
	offHeap    int64
}

func measureFootprint() footprint {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), m.HeapAlloc, vfs.AllocatedBytes()}
}

// Not parallel: it looks at the whole process.
func TestFootprint_IdleEmptyDatabaseIsSmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	before := measureFootprint()
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := measureFootprint()
	if n := after.goroutines - before.goroutines; n > 5 {
		t.Errorf("%d goroutines, want at most 5", n)
	}
	memory := int64(after.heap) - int64(before.heap) + after.offHeap - before.offHeap
	if memory > 8<<20 {
		t.Errorf("%d bytes of memory, want less than 8 MiB", memory)
	}
	if size := directorySize(t, dir); size > 8<<20 {
		t.Errorf("%d bytes of disk, want at most 8 MiB", size)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("idle: %d goroutines, %d bytes of memory, %d of disk", after.goroutines-before.goroutines, memory, directorySize(t, dir))
	end := measureFootprint()
	if end.offHeap != before.offHeap {
		t.Errorf("%d bytes outside the heap are left after Close", end.offHeap-before.offHeap)
	}
	testkit.Eventually(t, "no goroutine is left after Close", func() bool { return runtime.NumGoroutine() <= before.goroutines })
}

func directorySize(t *testing.T, dir string) (size int64) {
	t.Helper()
	fs := vfs.OS()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		info, err := fs.Stat(fs.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		size += info.Allocated
	}
	return size
}

// The time of an Open is that of its calls, above all of its syncs. BenchmarkOpen measures it.
func TestFootprint_OpeningAnEmptyDatabaseTakesFewCalls(t *testing.T) {
	t.Parallel()
	const callsMax, syncsMax, writtenMax = 40, 4, 256 << 10
	dir, disk := filepath.Join(t.TempDir(), "db"), faultfs.New(vfs.OS())
	for _, what := range []string{"a new database", "an empty one"} {
		var calls, syncs, written atomic.Int64
		disk.Observe(func(op vfs.Op) {
			calls.Add(1)
			switch op.Kind {
			case vfs.OpSync, vfs.OpSyncData, vfs.OpSyncDir:
				syncs.Add(1)
			case vfs.OpWrite:
				written.Add(op.Len)
			}
		})
		db, err := stoat.Open(dir, &stoat.Options{FS: disk})
		disk.Observe(nil)
		testkit.Must(t, err)
		testkit.Must(t, db.Close())
		t.Logf("%s: %d calls, %d syncs, %d bytes written", what, calls.Load(), syncs.Load(), written.Load())
		if calls.Load() > callsMax || syncs.Load() > syncsMax || written.Load() > writtenMax {
			t.Errorf("opening %s takes %d calls, %d syncs and writes %d bytes, want at most %d, %d and %d",
				what, calls.Load(), syncs.Load(), written.Load(), callsMax, syncsMax, writtenMax)
		}
	}
}

// A transaction as large as many memtables is whole, before and after reopening,
// and visible in one step: through the log, in a segment that grows for it, and with
// the values straight to value files. `make large` lets it be a gigabyte.
func TestLargeTransactions_CommitWhole(t *testing.T) {
	total := 128 << 20
	switch {
	case *largeValues:
		total = 1 << 30
	case testing.Short():
		total = testkit.Raced(16, 4) << 20
	}
	memtable := int64(testkit.Raced(4, 1) << 20)
	for _, way := range []struct {
		name      string
		valueSize int
		opts      stoat.Options
	}{
		{"through the log", 2 << 10, stoat.Options{MemtableSize: memtable, LargeValueThreshold: 1 << 30}},
		{"short values through the log", 100, stoat.Options{MemtableSize: memtable}},
		{"to value files", 1 << 20, stoat.Options{MemtableSize: memtable}},
	} {
		t.Run(way.name, func(t *testing.T) {
			commitLarge(t, &way.opts, total/(way.valueSize+len(largeTxnKey(0))), way.valueSize)
		})
	}
}

func largeTxnKey(i int) []byte { return fmt.Appendf(nil, "key-%08d", i) }

// commitLarge commits n values in one transaction and looks for them.
func commitLarge(t *testing.T, opts *stoat.Options, n, valueSize int) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := stoat.Open(dir, opts)
	testkit.Must(t, err)
	value := bytes.Repeat([]byte{7}, valueSize)
	testkit.Must(t, db.Update(func(tx stoat.Txn) error {
		for i := range n {
			binary.BigEndian.PutUint64(value, uint64(i))
			if err := tx.Set(largeTxnKey(i), value); err != nil {
				return err
			}
		}
		return nil
	}))
	total := int64(n) * int64(valueSize)
	if s := db.Stats(); opts.LargeValueThreshold > 0 || valueSize < 4<<10 {
		if s.Log.BytesWritten < total {
			t.Errorf("%d bytes of the %d went through the log", s.Log.BytesWritten, total)
		}
	} else if s.ApartBytes < total {
		t.Errorf("%d bytes of the %d went to value files", s.ApartBytes, total)
	}
	check := func(db *stoat.DB) {
		t.Helper()
		seen := 0
		err := db.View(func(tx stoat.Txn) error {
			for k, v := range tx.All() {
				binary.BigEndian.PutUint64(value, uint64(seen))
				if !bytes.Equal(k, largeTxnKey(seen)) || !bytes.Equal(v, value) {
					return fmt.Errorf("entry %d is %q with %d bytes", seen, k, len(v))
				}
				seen++
			}
			return tx.Err()
		})
		if err != nil || seen != n {
			t.Fatalf("%d of %d entries: %v", seen, n, err)
		}
	}
	check(db)
	testkit.Must(t, db.Close())
	db, err = stoat.Open(dir, opts)
	testkit.Must(t, err)
	check(db)
	testkit.Must(t, db.Close())
	if _, err := db.Begin(stoat.ReadOnly); !errors.Is(err, stoat.ErrClosed) {
		t.Errorf("a closed database began a transaction: %v", err)
	}
}
