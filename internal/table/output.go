package table

import "github.com/stoatdb/stoat/internal/vfs"

const (
	// writeSize is the size of the writes that a table is made with.
	writeSize = 1 << 20
	// writeBackSize is how much is written before the system is told to start
	// writing it back. Without it the final sync would do all of the work at
	// once, in everybody's way.
	writeBackSize = 4 << 20
)

// An output appends to a file through a buffer. After an error it stays in
// that error.
type output struct {
	file    vfs.File
	buf     []byte
	off     int64 // of buf in the file
	started int64 // what lies before it is being written back
	err     error
}

func (o *output) pos() int64 { return o.off + int64(len(o.buf)) }

// write appends b. Long bytes go to the file without being copied.
func (o *output) write(b []byte) {
	if len(o.buf)+len(b) <= writeSize {
		o.buf = append(o.buf, b...)
		return
	}
	if n := writeSize - len(o.buf); len(o.buf) > 0 {
		o.buf = append(o.buf, b[:n]...)
		b = b[n:]
		o.flush()
	}
	for len(b) >= writeSize {
		o.put(b[:writeSize])
		b = b[writeSize:]
	}
	o.buf = append(o.buf, b...)
}

func (o *output) flush() {
	o.put(o.buf)
	o.buf = o.buf[:0]
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
	if o.off-o.started >= writeBackSize {
		// It is a hint: where it fails, the final sync does the work.
		_ = o.file.SyncRange(o.started, o.off-o.started)
		o.started = o.off
	}
}
