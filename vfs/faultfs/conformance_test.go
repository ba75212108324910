package faultfs

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/vfstest"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Without rules, an FS behaves like the one that it wraps.
func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("OverMemory", func(t *testing.T) {
		t.Parallel()
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfstest.EmptyDir(t, New(memfs.New())) })
	})
	t.Run("OverOS", func(t *testing.T) {
		t.Parallel()
		vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return New(vfs.OS()), t.TempDir() })
	})
}
