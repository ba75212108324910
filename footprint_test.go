package stoat_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/vfs"
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
func TestIdleEmptyDatabaseIsSmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	before := measureFootprint()
	db, err := stoat.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := measureFootprint()
	if n := after.goroutines - before.goroutines; n > 4 {
		t.Errorf("%d goroutines, want at most 4", n)
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
	t.Logf("idle: %d bytes of memory, %d of disk", memory, directorySize(t, dir))
	end := measureFootprint()
	if end.offHeap != before.offHeap {
		t.Errorf("%d bytes outside the heap are left after Close", end.offHeap-before.offHeap)
	}
	if n := end.goroutines - before.goroutines; n > 0 {
		t.Errorf("%d goroutines are left after Close", n)
	}
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

// The limit is five milliseconds on a quiet machine; the best of many is what
// this one can say on a busy one.
func TestOpeningAnEmptyDatabaseTakesMilliseconds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	best := time.Hour
	for range 10 {
		start := time.Now()
		db, err := stoat.Open(dir, nil)
		best = min(best, time.Since(start))
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if best > 5*time.Millisecond {
		t.Errorf("opening took %v, want less than 5 ms", best)
	}
}

// A transaction as large as many memtables and log segments is whole, before
// and after reopening, and visible in one step.
func TestTransactionsLargerThanEverythingCommitWhole(t *testing.T) {
	total := int64(1 << 30)
	if testing.Short() || math.MaxInt == math.MaxInt32 {
		total = 64 << 20
	}
	if vfs.AllocatedBytes() > 0 {
		runtime.GC()
	}
	dir := filepath.Join(t.TempDir(), "db")
	opts := &stoat.Options{MemtableSize: 8 << 20}
	db, err := stoat.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	value := func(i int) []byte {
		v := bytes.Repeat([]byte{byte(i)}, 1<<20)
		binary.BigEndian.PutUint64(v, uint64(i))
		return v
	}
	n := int(total >> 20)
	err = db.Update(func(tx *stoat.Txn) error {
		for i := range n {
			if err := tx.Set(fmt.Appendf(nil, "key-%06d", i), value(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(db *stoat.DB) {
		t.Helper()
		seen := 0
		err := db.View(func(tx *stoat.Txn) error {
			for k, v := range tx.All() {
				if string(k) != fmt.Sprintf("key-%06d", seen) || !bytes.Equal(v, value(seen)) {
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
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = stoat.Open(dir, opts); err != nil {
		t.Fatal(err)
	}
	check(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Begin(stoat.ReadOnly); !errors.Is(err, stoat.ErrClosed) {
		t.Errorf("a closed database began a transaction: %v", err)
	}
}
