package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// IsLacking reports whether err says that this machine does not have, or does not allow,
// what a test needs. Any other failure is one of the test.
func IsLacking(err error) bool {
	if errors.Is(err, exec.ErrNotFound) {
		return true
	}
	for _, lack := range []error{syscall.EPERM, syscall.EACCES, syscall.ENOSYS, syscall.ENOTTY, syscall.EOPNOTSUPP, syscall.ENODEV} {
		if errors.Is(err, lack) {
			return true
		}
	}
	// mount(8) tells in words alone.
	for _, words := range []string{"permission denied", "must be superuser", "unknown filesystem type", "failed to setup loop device"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}

// Unmount unmounts dir. It fails when a file of this process stays open or mapped below
// dir. It tries again for a minute. A child process of a test beside this one holds the
// same files until it runs its own program.
func Unmount(dir string) error {
	err := syscall.Unmount(dir, 0)
	for deadline := time.Now().Add(time.Minute); err == syscall.EBUSY && time.Now().Before(deadline); {
		runtime.Gosched()
		err = syscall.Unmount(dir, 0)
	}
	if err != nil {
		return fmt.Errorf("unmount %s: %w; open are %q", dir, err, openBelow(dir))
	}
	return nil
}

// openBelow lists the files in dir that this process has open.
func openBelow(dir string) (names []string) {
	handles, _ := filepath.Glob("/proc/self/fd/*") // without /proc the list is empty
	for _, handle := range handles {
		if name, err := os.Readlink(handle); err == nil && strings.HasPrefix(name, dir) {
			names = append(names, name)
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for line := range strings.Lines(string(maps)) {
		if at := strings.Index(line, dir); at >= 0 {
			names = append(names, strings.TrimSpace(line[at:])+" (mapped)")
		}
	}
	return names
}
