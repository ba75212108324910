package table

import (
	"github.com/stoatdb/stoat/internal/scratch"
	"github.com/stoatdb/stoat/vfs"
)

// writeSize is the size of the writes that a table is made with.
const writeSize = scratch.Size

// An output appends to a file through a buffer. After an error it stays in
// that error.
type output struct {
	file vfs.File
	back vfs.WriteBack
	buf  []byte
	off  int64 // of buf in the file
	err  error
}

// newOutput leaves it to the bytes to say how large a buffer they need: most
// tables of a small database have few.
func newOutput(file vfs.File) output {
	return output{file: file, back: vfs.NewWriteBack(file)}
}

func (o *output) pos() int64 { return o.off + int64(len(o.buf)) }

// write appends b. Long bytes go to the file without being copied.
func (o *output) write(b []byte) {
	if len(o.buf)+len(b) <= writeSize {
		o.buf = append(scratch.Grow(o.buf, len(b)), b...)
		return
	}
	if n := writeSize - len(o.buf); len(o.buf) > 0 {
		o.buf = append(scratch.Grow(o.buf, n), b[:n]...)
		b = b[n:]
		o.flush()
	}
	for len(b) >= writeSize {
		o.put(b[:writeSize])
		b = b[writeSize:]
	}
	o.buf = append(scratch.Grow(o.buf, len(b)), b...)
}

func (o *output) flush() {
	o.put(o.buf)
	o.buf = o.buf[:0]
}

// finish writes what is left. Nothing is appended after it.
func (o *output) finish() {
	o.flush()
	scratch.Release(o.buf)
	o.buf = nil
}

func (o *output) put(b []byte) {
	if o.err != nil || len(b) == 0 {
		return
	}
	if _, err := o.file.WriteAt(b, o.off); err != nil {
		o.err = err
		return
	}
	o.off += int64(len(b))
	o.err = o.back.Reached(o.off)
}
