//go:build unix

package measure

import (
	"os"
	"syscall"
)

// allocated returns the bytes of the blocks of a file.
func allocated(info os.FileInfo) int64 {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return info.Size()
	}
	return int64(st.Blocks) * 512
}
