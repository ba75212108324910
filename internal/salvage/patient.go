package salvage

import (
	"errors"
	"io"

	"github.com/stoatdb/stoat/vfs"
)

// pageSize is how many bytes of a file are given up at least when they cannot be read.
const pageSize = 4 << 10

// A patient is a file whose unreadable pages read as zeros: those that the device does not
// return, and those of a sealed file that do not authenticate. No checksum of stoat takes
// zeros for data.
type patient struct {
	vfs.File
	unread int64 // bytes of pages that could not be read
	err    error // the first error
}

// ReadAt reads a part of the file.
func (p *patient) ReadAt(b []byte, off int64) (int, error) {
	n, err := p.File.ReadAt(b, off)
	if err == nil || n == len(b) || errors.Is(err, io.EOF) || errors.Is(err, vfs.ErrClosed) {
		return n, err
	}
	for at := 0; at < len(b); {
		page := b[at:min(len(b), at+pageSize-int((off+int64(at))%pageSize))]
		if _, err := p.File.ReadAt(page, off+int64(at)); err != nil && !errors.Is(err, io.EOF) {
			clear(page)
			p.unread += int64(len(page))
			if p.err == nil {
				p.err = err
			}
		}
		at += len(page)
	}
	return len(b), nil
}
