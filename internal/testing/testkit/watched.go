package testkit

import "github.com/stoatdb/stoat/vfs"

// WatchedLog is a file system that calls Read before it reads a file of a log.
type WatchedLog struct {
	vfs.FS
	Read func(path string) // may be nil
}

// Open opens a file for reading.
func (w *WatchedLog) Open(path string, cat vfs.Category) (vfs.File, error) {
	f, err := w.FS.Open(path, cat)
	if err != nil || cat != vfs.CatLog {
		return f, err
	}
	return watchedFile{f, path, w}, nil
}

type watchedFile struct {
	vfs.File
	path string
	of   *WatchedLog
}

func (f watchedFile) ReadAt(p []byte, offset int64) (int, error) {
	if f.of.Read != nil {
		f.of.Read(f.path)
	}
	return f.File.ReadAt(p, offset)
}
