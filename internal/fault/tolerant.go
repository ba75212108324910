package fault

import (
	"errors"
	"io"

	"github.com/stoatdb/stoat/vfs"
)

// pageSize is how many bytes of a file are given up at least when they cannot be read.
const pageSize = 4 << 10

// Tolerant returns a file whose unreadable pages read as zeros. The device does not return
// such a page, or the page belongs to a sealed file and does not authenticate. It is for a
// caller that verifies checksums. None of them takes zeros for data.
func Tolerant(f vfs.File) vfs.File { return tolerant{f} }

type tolerant struct{ vfs.File }

// ReadAt reads a part of the file.
func (t tolerant) ReadAt(b []byte, off int64) (int, error) {
	n, err := t.File.ReadAt(b, off)
	if err == nil || n == len(b) || errors.Is(err, io.EOF) || errors.Is(err, vfs.ErrClosed) {
		return n, err
	}
	for at := 0; at < len(b); {
		page := b[at:min(len(b), at+pageSize-int((off+int64(at))%pageSize))]
		n, err := t.File.ReadAt(page, off+int64(at))
		if n < len(page) && errors.Is(err, io.EOF) {
			return at + n, err
		}
		if n < len(page) {
			clear(page)
		}
		at += len(page)
	}
	return len(b), nil
}
