package space

import (
	"context"
	"io"
)

// streamBuffered is the number of bytes that are buffered at most between reading a
// stream and writing it to the disk.
const streamBuffered = 3 << 19

// A Reader reads a stream of unknown length that its caller writes to the disk. It gets
// room promised for each part before it reads the part, and fails if there is none.
type Reader struct {
	r        io.Reader
	reserve  *Reserve
	ctx      context.Context
	promised int64 // bytes that may not be on the disk yet
}

// NewReader returns a Reader of r. The caller closes it.
func (r *Reserve) NewReader(ctx context.Context, from io.Reader) *Reader {
	return &Reader{r: from, reserve: r, ctx: ctx}
}

// Read reads a part.
func (r *Reader) Read(b []byte) (int, error) {
	most := int64(len(b))
	if err := r.reserve.Admit(r.ctx, most); err != nil {
		return 0, err
	}
	r.promised += most
	n, err := r.r.Read(b)
	unused := most - int64(n)
	r.reserve.left.Add(unused)
	r.keep(min(r.promised-unused, streamBuffered))
	return n, err
}

// Close ends the promises.
func (r *Reader) Close() { r.keep(0) }

// keep ends the promise, except for that many bytes.
func (r *Reader) keep(bytes int64) {
	r.reserve.promised.Add(bytes - r.promised)
	r.promised = bytes
}
