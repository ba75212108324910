package vfs_test

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/vfstest"
	"github.com/stoatdb/stoat/vfs"
)

// TestMapping_ConformsWithoutPopulate does not run in parallel because it changes a
// package variable and counts descriptors.
func TestMapping_ConformsWithoutPopulate(t *testing.T) {
	before := vfs.OpenDescriptors(t)
	vfs.WithoutPopulate(func() { vfstest.RunMappings(t, vfs.OS(), t.TempDir) })
	if after := vfs.OpenDescriptors(t); after != before {
		t.Fatalf("%d descriptors are open, %d were before", after, before)
	}
}
