package stoat_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// unmount fails when a file of this process stays open below dir, or mapped. For
// a moment another process may have it open as well: one that a test beside this
// one has just started holds all that this process has, until it runs its own
// program.
func unmount(dir string) error {
	err := syscall.Unmount(dir, 0)
	for deadline := time.Now().Add(5 * time.Second); err == syscall.EBUSY && time.Now().Before(deadline); {
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
