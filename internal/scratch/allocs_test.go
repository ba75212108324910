//go:build !race && !invariants

package scratch

import "testing"

// It counts what everybody allocates, and so is not parallel. The race detector
// empties pools at random, and invariants allocate: there is nothing to count with them.
func TestFilesOneAfterTheOtherShareABuffer(t *testing.T) {
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
