package table

import (
	"github.com/stoatdb/stoat/internal/scratch"
	"github.com/stoatdb/stoat/vfs"
)

// writeSize is the size in bytes of the writes of a table.
const writeSize = scratch.Size

// An output appends to a file through a buffer. After an error it writes nothing
// more.
type output struct {
	file vfs.File
	back vfs.WriteBack
	buf  []byte
	off  int64 // file offset of buf
	err  error
}

// newOutput returns an output without a buffer. The buffer grows with the data,
// as most tables of a small database are small.
func newOutput(file vfs.File) output {
	return output{file: file, back: vfs.NewWriteBack(file)}
}

func (o *output) pos() int64 { return o.off + int64(len(o.buf)) }

// write appends b. It writes long data to the file without copying it.
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

// finish writes the rest of the buffer. No write may follow.
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
