package measure

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Space is the size of all files below a directory.
type Space struct {
	ApparentBytes  int64 // the lengths of the files
	AllocatedBytes int64 // the allocated blocks; fewer in sparse files
	Files          int
}

// DirSpace measures dir. A file that a working store removes during the walk
// does not count.
func DirSpace(dir string) (Space, error) {
	var s Space
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		s.add(info)
		return nil
	})
	return s, err
}

func (s *Space) add(info os.FileInfo) {
	s.Files++
	s.ApparentBytes += info.Size()
	s.AllocatedBytes += allocated(info)
}
