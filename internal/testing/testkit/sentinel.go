package testkit

import (
	"bytes"
	"errors"
	"fmt"
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
	for _, name := range names {
		content, err := ReadFile(fs, fs.Join(dir, name))
		if err != nil {
			return err
		}
		if i := bytes.Index(content, []byte(Sentinel)); i >= 0 {
			return fmt.Errorf("%s of an encrypted database has plain text at offset %d", name, i)
		}
	}
	return nil
}
