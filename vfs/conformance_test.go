package vfs_test

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/vfstest"
	"github.com/stoatdb/stoat/vfs"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfs.OS(), t.TempDir() })
}
