package measure

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Space is the size of a directory with all that is in it.
type Space struct {
	ApparentBytes  int64 // the lengths of the files
	AllocatedBytes int64 // the blocks behind them; less in sparse files
	Files          int
}

// DirSpace measures dir. Files that vanish meanwhile, as they do under a
// store at work, do not count.
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
