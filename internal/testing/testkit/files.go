package testkit

import (
	"errors"
	"io"
	"testing"

	"github.com/stoatdb/stoat/vfs"
)

// ReadFile returns the content of a file.
func ReadFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path, vfs.CatNone)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	content := make([]byte, size)
	if _, err := f.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return content, nil
}

// WriteFile makes path hold content and nothing else.
func WriteFile(fs vfs.FS, path string, content []byte) error {
	f, err := fs.OpenReadWrite(path, vfs.CatNone)
	if errors.Is(err, vfs.ErrNotExist) {
		f, err = fs.Create(path, vfs.CatNone)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(int64(len(content))); err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return err
}

// FilesOf returns every file of the database and its bytes.
func FilesOf(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	Must(t, err)
	files := make(map[string]string)
	for _, name := range names {
		b, err := ReadFile(fs, fs.Join(dir, name))
		Must(t, err)
		files[name] = string(b)
	}
	return files
}
