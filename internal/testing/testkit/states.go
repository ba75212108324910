package testkit

import (
	"sync"

	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A State is a disk before a call that changed it.
type State struct {
	Disk *memfs.FS
	Op   vfs.Op
}

// States collects the states of a disk until stop, which returns them in order. Any
// goroutine may use the disk meanwhile.
func States(disk *memfs.FS) (stop func() []State) {
	var mu sync.Mutex
	var states []State
	disk.SetHook(func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, State{disk.Clone(), op})
	})
	return func() []State {
		disk.SetHook(nil)
		mu.Lock()
		defer mu.Unlock()
		return states
	}
}

// Writes counts the writes to files of a disk until stop, which returns their number.
func Writes(disk *memfs.FS) (stop func() int) {
	writes := 0
	var mu sync.Mutex
	disk.SetHook(func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if op.Kind == vfs.OpWrite {
			writes++
		}
	})
	return func() int {
		disk.SetHook(nil)
		mu.Lock()
		defer mu.Unlock()
		return writes
	}
}
