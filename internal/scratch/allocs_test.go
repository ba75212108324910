//go:build !race

package scratch

import "testing"

// It counts what everybody allocates, and so is not parallel. The race detector
// empties pools at random: there is nothing to count with it.
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
