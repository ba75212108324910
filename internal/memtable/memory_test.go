package memtable

import (
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestPool_ReusesBlocksUpToItsLimit(t *testing.T) {
	t.Parallel()
	mem := newCounting()
	pool := NewPool(mem, 4*poolMin)
	alloc := func(n int) []byte {
		t.Helper()
		b, err := pool.Alloc(n)
		if err != nil || len(b) != n {
			t.Fatalf("%d bytes: got %d, %v", n, len(b), err)
		}
		return b
	}
	a, b, c := alloc(poolMin), alloc(2*poolMin), alloc(4*poolMin)
	odd, small := alloc(poolMin+8), alloc(poolMin/2)
	for _, x := range [][]byte{a, b, c, odd, small} {
		pool.Free(x)
	}
	if pool.Idle() != 3*poolMin || mem.held() != 3*poolMin {
		t.Fatalf("the pool keeps %d bytes, %d are out; want %d", pool.Idle(), mem.held(), 3*poolMin)
	}
	if again := alloc(2 * poolMin); &again[0] != &b[0] {
		t.Fatal("a kept block was not used")
	}
	if pool.Idle() != poolMin {
		t.Fatalf("the pool keeps %d bytes, want %d", pool.Idle(), poolMin)
	}
	pool.Trim()
	pool.Free(b)
	if pool.Idle() != 0 || mem.held() != 0 {
		t.Fatalf("the pool at rest keeps %d bytes, %d are out", pool.Idle(), mem.held())
	}
	pool.Free(alloc(poolMin))
	if pool.Idle() != poolMin {
		t.Fatalf("the pool in use keeps %d bytes, want %d", pool.Idle(), poolMin)
	}
	pool.Close()
	pool.Free(alloc(poolMin))
	if pool.Idle() != 0 || mem.held() != 0 {
		t.Fatalf("the closed pool keeps %d bytes, %d are out", pool.Idle(), mem.held())
	}
}

// TestPool_TablesAllocateNothingInTheSteadyState fills and releases tables of
// one pool and counts the allocations below the pool.
func TestPool_TablesAllocateNothingInTheSteadyState(t *testing.T) {
	t.Parallel()
	mem := newCounting()
	pool := NewPool(mem, 64<<20)
	for life := range 4 {
		table := New(Options{Memory: pool, SizeHint: 10_000})
		for i := range 10_000 {
			k := benchKey(nil, uint64(i))
			if err := table.Set(k, benchValue, hashOf(k), base.Meta{Kind: base.KindSet}, 1); err != nil {
				t.Fatal(err)
			}
		}
		if v, _, _, ok := table.Get(benchKey(nil, 77), hashOf(benchKey(nil, 77)), 1); !ok || len(v) != len(benchValue) {
			t.Fatal("a key is missing")
		}
		table.Release()
		if life == 0 {
			mem.failWhen(func(n int) bool { return n >= poolMin })
		}
	}
	mem.failWhen(nil)
	pool.Trim()
	if mem.held() != 0 {
		t.Fatalf("%d bytes are out", mem.held())
	}
}

func TestTiered_FreesBlocksToTheirSource(t *testing.T) {
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
