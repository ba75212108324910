package manifest

import (
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/vfs"
)

// Inspect reports whether the directory has a manifest, or files that need one, and
// whether the newest manifest is sealed.
func Inspect(fs vfs.FS, dir string) (exists, sealed bool, err error) {
	l, err := list(fs, dir)
	if err != nil || len(l.manifests) == 0 {
		return l.data != "", false, err
	}
	name := FileName(l.newest())
	f, err := fs.Open(fs.Join(dir, name), vfs.CatManifest)
	if err != nil {
		return true, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	size, err := f.Size()
	if err != nil {
		return true, false, err
	}
	headers, err := record.ReadHeaders(f, size, record.TypeManifest)
	for i := range headers {
		sealed = sealed || headers[i].Key.Sealed()
	}
	return true, sealed, err
}

// CheckExists returns nil if a directory holds a manifest, and otherwise the error that
// Load would return. It opens no file.
func CheckExists(fs vfs.FS, dir string) error {
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
