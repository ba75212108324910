package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DeviceWritten returns how many bytes the device below dir has been given to
// write since the system started, by anybody, and false where that is not
// known, as for a file system in memory.
func DeviceWritten(dir string) (int64, bool) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return 0, false
	}
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0, false
	}
	// The seventh number is that of the sectors written, of 512 bytes each.
	numbers := strings.Fields(string(text))
	if len(numbers) < 7 {
		return 0, false
	}
	sectors, err := strconv.ParseInt(numbers[6], 10, 64)
	return sectors * 512, err == nil
}

// FlushFileSystem writes out everything that the file system below dir holds
// in memory, so that DeviceWritten has counted it.
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
