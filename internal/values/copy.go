package values

import "io"

// sequentialGap is a distance in bytes. A record that begins within it behind the last
// one continues a sequential copy.
const sequentialGap = 64 << 10

// A Copier copies records of one file into others. It reads the file directly, not
// through the mapping, and verifies what it copies.
type Copier struct {
	src *Reader
	v   *view // finds records; may lack a mapping
	in  window
	// ahead is the size in bytes of one read in a sequential copy. last is the
	// end of the last copied record.
	ahead, last int64
	// Stop returns an error to end the copying, and nil to continue. The Copier
	// calls it first and then after every stopEvery bytes, even within a long
	// value. Stop may be nil. untilStop is the number of bytes to copy before the
	// next call.
	Stop      func() error
	untilStop int64
}

// stopEvery is the number of bytes copied between two calls of Stop.
const stopEvery = 1 << 20

// NewCopier returns a Copier of the file of src. The caller keeps ownership of src. In
// a sequential copy it reads ahead bytes at once, at most half a megabyte, into a buffer of
// that size.
func NewCopier(src *Reader, ahead int64) (*Copier, error) {
	v, err := src.finder()
	return &Copier{src: src, v: v, in: window{file: src.file}, ahead: ahead}, err
}

// Copy appends the record of live to the file of w. The copy is identical except for
// the version: it gets that of live, even if the original was written before its
// version was known.
func (c *Copier) Copy(w *Writer, live Live) (Pointer, error) {
	at, err := c.v.place(live.Pointer)
	if err != nil {
		return Pointer{}, c.src.inFile(err)
	}
	p, err := c.copyAt(w, live, at, true)
	return p, c.src.inFile(err)
}

// copyAt copies the record at offset at. If named is set, the copy gets the version of
// live. Otherwise it keeps that of the record.
func (c *Copier) copyAt(w *Writer, live Live, at int64, named bool) (Pointer, error) {
	p := live.Pointer
	if p.Length() > windowSize {
		return c.copyLarge(w, live)
	}
	if err := c.pause(p.Length()); err != nil {
		return Pointer{}, err
	}
	ahead := int64(0)
	if at >= c.last && at-c.last <= sequentialGap {
		ahead = c.ahead
	}
	in := &c.in
	if p.Length() > c.ahead { // many Copiers may each meet one long record: share a window
		in = &w.copied
		in.file, in.buf = c.src.file, in.buf[:0]
	}
	rec, err := in.read(at, p.Length(), c.v.end, ahead)
	if err != nil {
		return Pointer{}, err
	}
	c.last = at + p.Length()
	h, err := decodeHeader(rec, at, at+p.Length())
	if err != nil {
		return Pointer{}, err
	}
	if h.size() != p.Length() || !h.is(p, live.Key, live.Seq, rec) {
		return Pointer{}, mismatch(at, &h, p, live.Seq)
	}
	if err := h.checkRecord(c.src.salt, at, rec); err != nil {
		return Pointer{}, err
	}
	if named {
		h.seq = live.Seq
	}
	if err := w.checkAppend(live.Key, 0); err != nil {
		return Pointer{}, err
	}
	return w.appendRecord(h, live.Key, rec[h.valueOff():h.valueEnd()])
}

// copyLarge copies a chunked value without holding all of it in memory.
func (c *Copier) copyLarge(w *Writer, live Live) (Pointer, error) {
	in, err := c.src.NewValueReader(live.Pointer, live.Key, live.Seq)
	if err != nil {
		return Pointer{}, err
	}
	out, err := w.Stream(live.Key)
	if err != nil {
		return Pointer{}, err
	}
	if _, err := io.Copy(out, &pausingReader{in, c}); err != nil {
		out.Abort()
		return Pointer{}, err
	}
	return out.Finish(live.Seq)
}

// pause calls Stop if enough has been copied, including that many more bytes.
func (c *Copier) pause(bytes int64) error {
	if c.untilStop -= bytes; c.untilStop >= 0 || c.Stop == nil {
		return nil
	}
	c.untilStop = stopEvery
	return c.Stop()
}

// A pausingReader is a reader that calls pause for what it reads.
type pausingReader struct {
	in *ValueReader
	c  *Copier
}

func (p *pausingReader) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if err == nil {
		err = p.c.pause(int64(n))
	}
	return n, err
}

// Close closes the source file and its reader.
func (c *Copier) Close() error {
	c.in.release()
	return c.src.Close()
}
