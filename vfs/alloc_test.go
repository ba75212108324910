package vfs

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// The tests of this file do not run in parallel because they check AllocatedBytes.

func TestAlloc_ReturnsZeroedMemoryAndCountsIt(t *testing.T) {
	before := AllocatedBytes()
	total := int64(0)
	var all [][]byte
	for _, n := range []int{1, 7, 8, 4096, 100_000, 3 << 20} {
		b, err := Alloc(n)
		must(t, err)
		if len(b) != n || cap(b) != n {
			t.Fatalf("got %d bytes with capacity %d, want %d", len(b), cap(b), n)
		}
		if uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
			t.Fatalf("%d bytes are not aligned", n)
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("byte %d of %d is %d", i, n, b[i])
			}
			b[i] = 1
		}
		total += int64(n)
		all = append(all, b)
	}
	if got := AllocatedBytes() - before; got != total {
		t.Fatalf("%d bytes counted, %d allocated", got, total)
	}
	for _, b := range all {
		must(t, Free(b[:0])) // Free ignores the length
	}
	if got := AllocatedBytes(); got != before {
		t.Fatalf("%d bytes counted after Free, %d before", got, before)
	}
}

func TestAlloc_OfNothing(t *testing.T) {
	before := AllocatedBytes()
	b, err := Alloc(0)
	must(t, err)
	if len(b) != 0 {
		t.Fatalf("got %d bytes", len(b))
	}
	must(t, Free(b))
	must(t, Free(nil))
	_, err = Alloc(-1)
	wantError(t, "allocate -1 bytes", err)
	if got := AllocatedBytes(); got != before {
		t.Fatalf("%d bytes counted, %d before", got, before)
	}
}

// BenchmarkRandomAccess reads words of a large allocation in random order. Each word is
// the address of the next.
func BenchmarkRandomAccess(b *testing.B) {
	const size = 256 << 20
	mem, err := Alloc(size)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = Free(mem) }()
	words := unsafe.Slice((*uint32)(unsafe.Pointer(&mem[0])), size/4)
	// One cycle visits all cache lines.
	const stride = 16
	lines := uint32(len(words) / stride)
	order := rand.New(rand.NewPCG(1, 2)).Perm(int(lines))
	for i, line := range order {
		words[uint32(line)*stride] = uint32(order[(i+1)%len(order)]) * stride
	}
	at := uint32(0)
	for b.Loop() {
		at = words[at]
	}
	if at == math.MaxUint32 {
		b.Fatal("left the cycle")
	}
}
