package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stoatdb/stoat/vfs"
)

// Sentinel is a text in random keys and values, and in names of keyspaces. No file of an
// encrypted database may contain it.
const Sentinel = "sentinel text"

// Filled returns n bytes that repeat the sentinel.
func Filled(n int) string { return strings.Repeat(Sentinel, n/len(Sentinel)+1)[:n] }

// NoSentinel returns an error if a file of the database in dir contains the sentinel.
func NoSentinel(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if errors.Is(err, vfs.ErrNotExist) {
		return nil // there is no database yet
	}
	if err != nil {
		return err
	}
	buffer := make([]byte, 64<<10)
	for _, name := range names {
		offset, err := findSentinel(fs, fs.Join(dir, name), buffer)
		if err != nil {
			return err
		}
		if offset >= 0 {
			return fmt.Errorf("%s of an encrypted database has plain text at offset %d", name, offset)
		}
	}
	return nil
}

// findSentinel returns the offset of the sentinel in a file, or -1.
func findSentinel(fs vfs.FS, path string, buffer []byte) (int64, error) {
	f, err := fs.Open(path, vfs.CatNone)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	for at := int64(0); ; at += int64(len(buffer) - len(Sentinel)) {
		n, err := f.ReadAt(buffer, at)
		if i := bytes.Index(buffer[:n], []byte(Sentinel)); i >= 0 {
			return at + int64(i), nil
		}
		if n < len(buffer) {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return -1, err
		}
	}
}
