package vfs

import "testing"

// WithoutPopulate runs test as on a kernel that cannot populate mappings. No other
// test may run meanwhile.
func WithoutPopulate(test func()) {
	can := canPopulate
	canPopulate = func() bool { return false }
	defer func() { canPopulate = can }()
	test()
}

// OpenDescriptors returns how many descriptors this process has open.
func OpenDescriptors(t *testing.T) int { return openDescriptors(t) }
