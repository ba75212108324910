package measure

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadFiles reads every file in dir once, so that its pages are in the page
// cache as far as memory allows.
func ReadFiles(dir string) error {
	buf := make([]byte, 1<<20)
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return readFile(path, buf)
	})
}

func readFile(path string, buf []byte) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// The wrapper hides the file's own copying, which needs no buffer.
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, buf)
	return err
}
