package vfs

import "testing"

// WithoutPopulate runs test as if the kernel could not populate mappings. No other test
// may run at the same time.
func WithoutPopulate(test func()) {
	can := canPopulate
	canPopulate = func() bool { return false }
	defer func() { canPopulate = can }()
	test()
}

// OpenDescriptors returns the number of open descriptors of this process.
func OpenDescriptors(t *testing.T) int { return openDescriptors(t) }
