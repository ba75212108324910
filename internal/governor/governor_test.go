package governor

import (
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

func TestMemoryShort_WhenLessThanAnEighthIsLeft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m    vfs.MachineMemory
		want bool
	}{
		{vfs.MachineMemory{Total: 800, Available: 100}, false},
		{vfs.MachineMemory{Total: 800, Available: 99}, true},
		{vfs.MachineMemory{}, false},
	} {
		if got := shortOf(c.m); got != c.want {
			t.Errorf("%+v: short is %v", c.m, got)
		}
	}
}
