package vfs

import "testing"

// A failingDirs is a file system whose next SyncDir of a directory returns the error in
// next, if there is one.
type failingDirs struct {
	FS
	next map[string]error
}

func (f *failingDirs) SyncDir(dir string) error {
	err := f.next[dir]
	delete(f.next, dir)
	return err
}

func TestStrict_FailedSyncDirFailsForGood(t *testing.T) {
	t.Parallel()
	inner := &failingDirs{next: map[string]error{}}
	fs := Strict(inner, "/a")
	for _, dir := range []string{"/a", "/b"} {
		must(t, fs.SyncDir(dir))
	}
	inner.next["/b"] = ErrIO
	wantIs(t, fs.SyncDir("/b"), ErrIO)
	inner.next["/a"] = ErrIO
	for range 3 {
		err := fs.SyncDir("/a")
		wantIs(t, err, ErrIO)
		wantIs(t, err, ErrNamesLost)
	}
	must(t, fs.SyncDir("/b")) // another directory may be synced again
}

func TestStrict_SyncDirWithoutDescriptorsMayBeRepeated(t *testing.T) {
	t.Parallel()
	fs := Strict(&failingDirs{next: map[string]error{"/a": ErrTooManyFiles}}, "/a")
	wantIs(t, fs.SyncDir("/a"), ErrTooManyFiles)
	must(t, fs.SyncDir("/a"))
}
