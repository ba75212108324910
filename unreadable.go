package stoat

import (
	"errors"
	"strings"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/vfs"
)

// unreadable reports whether err says that what the file with the given name
// holds is not what was written, or that the device does not give it. That
// there are no more descriptors, or no space for a copy, is no fault of it.
func unreadable(err error, name string) bool {
	var corrupt *base.CorruptionError
	if errors.As(err, &corrupt) {
		return corrupt.File == name
	}
	var path *vfs.PathError
	if !errors.As(err, &path) || !errors.Is(path, vfs.ErrIO) {
		return false
	}
	dir, ok := strings.CutSuffix(path.Path, name)
	return ok && !strings.ContainsAny(dir[max(0, len(dir)-1):], "0123456789") // or it is the end of a longer name
}
