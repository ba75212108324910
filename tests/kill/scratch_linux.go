package kill

import (
	"os"
	"syscall"
)

// sharedMemory is where Linux has a file system in memory.
const sharedMemory = "/dev/shm"

// Scratch makes a directory for a harness that syncs all the time and can use any file
// system. The directory is in memory, where a sync takes no time, if there is plenty of
// memory.
func Scratch(name string) (string, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(sharedMemory, &fs)
	if err != nil || int64(fs.Bavail)*int64(fs.Bsize) < 4<<30 {
		return os.MkdirTemp("", name)
	}
	dir, err := os.MkdirTemp(sharedMemory, name)
	if err != nil {
		return os.MkdirTemp("", name)
	}
	return dir, nil
}
