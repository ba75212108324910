//go:build (linux || darwin || freebsd) && !race

package vfs

import (
	"math"
	"testing"
)

func TestFree_RefusesMemoryNotFromAlloc(t *testing.T) {
	before := AllocatedBytes()
	wantIs(t, Free(make([]byte, 4096)), errNotAllocated)
	b, err := Alloc(8192)
	must(t, err)
	wantIs(t, Free(b[4096:]), errNotAllocated)
	must(t, Free(b))
	wantIs(t, Free(b), errNotAllocated)
	if got := AllocatedBytes(); got != before {
		t.Fatalf("%d bytes counted, %d before", got, before)
	}
}

func TestAlloc_OfTooMuchIsAnError(t *testing.T) {
	if math.MaxInt == math.MaxInt32 {
		t.Skip("32 bits may well have the 2 GiB")
	}
	before := AllocatedBytes()
	_, err := Alloc(math.MaxInt)
	wantError(t, "allocate all addresses", err)
	if got := AllocatedBytes(); got != before {
		t.Fatalf("%d bytes counted, %d before", got, before)
	}
}
