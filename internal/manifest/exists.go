package manifest

import (
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// Exists returns nil if a directory holds a manifest, and otherwise the error that
// Load would return. It opens no file.
func Exists(fs vfs.FS, dir string) error {
	l, err := list(fs, dir)
	if err == nil && len(l.manifests) == 0 {
		err = l.missing(dir)
	}
	return err
}

// Readable returns the state if Load can read the manifest, and otherwise the error of Load.
// It changes nothing.
func Readable(fs vfs.FS, dir string, seal record.Sealer) (State, error) {
	s, state, err := Load(fs, dir, true, nil, seal)
	if err != nil {
		return state, err
	}
	return state, s.Close()
}
