package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DeviceWritten returns how many bytes all processes have written to the device
// of dir since the system started. It returns false where that is unknown, as
// for a file system in memory.
func DeviceWritten(dir string) (int64, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0, false
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0, false
	}
	// The seventh number counts the sectors written, of 512 bytes each.
	numbers := strings.Fields(string(text))
	if len(numbers) < 7 {
		return 0, false
	}
	sectors, err := strconv.ParseInt(numbers[6], 10, 64)
	return sectors * 512, err == nil
}

// FlushFileSystem writes the dirty pages of dir's file system to the device, so
// that DeviceWritten includes them.
func FlushFileSystem(dir string) (err error) {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		_ = f.Close() // the sync's error says more
		return fmt.Errorf("syncfs %s: %w", dir, err)
	}
	return f.Close()
}
