//go:build !race && !invariants

package scratch

import "testing"

// The test counts allocations of the whole process, so it is not parallel. The
// race detector empties pools at random, and invariants allocate, so it does not
// run with them.
func TestAllocs_ConsecutiveFilesShareABuffer(t *testing.T) {
	b := Grow(nil, Size)
	Release(b)
	allocs := testing.AllocsPerRun(100, func() {
		b := Grow(nil, Size)
		b = append(b, 1)
		Release(b)
	})
	if allocs > 0.5 {
		t.Errorf("a buffer costs %v allocations", allocs)
	}
}
