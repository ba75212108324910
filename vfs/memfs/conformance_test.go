package memfs

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/vfstest"
	"github.com/stoatdb/stoat/vfs"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, newFS := range map[string]func() *FS{
		"New":         New,
		"NewVolatile": NewVolatile,
		"Crash":       func() *FS { return New().Crash(KeepNone, testRand(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			vfstest.Run(t, func(t *testing.T) (vfs.FS, string) { return vfstest.EmptyDir(t, newFS()) })
		})
	}
}
