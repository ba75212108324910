package values

import (
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/scratch"
	"github.com/stoatdb/stoat/vfs"
)

// writeSize is the size of the write buffer in bytes.
const writeSize = scratch.Size

// writeUnit is a size in bytes. Every write but the last ends at a multiple of it: a
// page that two writes touch is written to the device twice.
const writeUnit = 64 << 10

// An output appends to a file through a buffer. After an error it writes nothing
// more.
type output struct {
	file vfs.File
	back vfs.WriteBack
	buf  []byte
	off  int64 // file offset of buf
	high int64 // largest offset ever written to
	err  error
}

// newOutput returns an output without a buffer. The buffer grows with the data, as
// most files of a small database are small.
func newOutput(file vfs.File) output {
	return output{file: file, back: vfs.NewWriteBack(file)}
}

func (o *output) pos() int64 { return o.off + int64(len(o.buf)) }

// room makes sure that n more bytes fit the buffer contiguously. n is at most
// writeSize.
func (o *output) room(n int) {
	if len(o.buf)+n > writeSize {
		whole := max(0, o.pos()&^(writeUnit-1)-o.off)
		o.put(o.buf[:whole])
		o.buf = o.buf[:copy(o.buf, o.buf[whole:])]
	}
}

// write appends b. It writes long data to the file without copying it.
func (o *output) write(b []byte) {
	o.room(min(len(b), writeSize))
	if len(o.buf)+len(b) > writeSize {
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

// put writes b at the end. After an error it still advances the position but writes
// nothing.
func (o *output) put(b []byte) {
	if len(b) == 0 {
		return
	}
	o.putAt(b, o.off)
	o.off += int64(len(b))
	if o.err == nil {
		o.err = o.back.Reached(o.off)
	}
}

// putAt writes b at off, bypassing the buffer.
func (o *output) putAt(b []byte, off int64) {
	if o.err != nil {
		return
	}
	_, o.err = o.file.WriteAt(b, off)
	o.high = max(o.high, off+int64(len(b)))
}

// rewind drops the data from off on.
func (o *output) rewind(off int64) {
	if off >= o.off {
		o.buf = o.buf[:off-o.off]
		return
	}
	o.buf, o.off = o.buf[:0], off
	o.back.Rewind(off)
}

// sync makes the appended data durable and truncates the file behind it. No write may
// follow.
func (o *output) sync() error {
	o.flush()
	scratch.Release(o.buf)
	o.buf = nil
	if o.err == nil && o.high > o.off {
		o.err, o.high = o.file.Truncate(o.off), o.off
	}
	if o.err == nil && !mutant.On(mutant.NoSync) {
		o.err = o.file.SyncData()
	}
	return o.err
}
