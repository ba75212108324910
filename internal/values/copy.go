package values

import "io"

// sequentialGap is how far behind the last record the next one may begin, to
// be taken for the continuation of a walk in order.
const sequentialGap = 64 << 10

// A Copier copies records of one file into others. It reads them by reads of
// its own, past the mapping, and verifies what it copies.
type Copier struct {
	src *Reader
	v   *view // finds records; it may have no mapping
	in  window
	// ahead is how much is read at once in a walk in order, and last where the
	// record ends that was copied last.
	ahead, last int64
	// Stop, if it is set, is asked at first and then now and again whether to give
	// up, also within a long value. patience is how many bytes are copied before the
	// next time.
	Stop     func() error
	patience int64
}

// stopEvery is how many bytes are copied between two questions to Stop.
const stopEvery = 1 << 20

// NewCopier returns a Copier of the file of src, which stays the caller's. It
// reads ahead bytes at once, at most a megabyte, where records are copied in
// the order of the file, and keeps a buffer as large.
func NewCopier(src *Reader, ahead int64) (*Copier, error) {
	c := &Copier{src: src, v: &view{end: src.foot.recordsEnd}, in: window{file: src.file}, ahead: ahead}
	if src.foot.remap.count == 0 {
		return c, nil
	}
	var err error
	c.v, err = src.mapped()
	return c, err
}

// Copy appends the record that live leads to to the file of w, as it is but
// for its version: that is the one of live even if it was not known when the
// record was written.
func (c *Copier) Copy(w *Writer, live Live) (Pointer, error) {
	at, err := c.v.place(live.Pointer)
	if err != nil {
		return Pointer{}, c.src.inFile(err)
	}
	p, err := c.copyAt(w, live, at, true)
	return p, c.src.inFile(err)
}

// copyAt copies the record at offset at. The copy has the version of live if
// named, or else that of the record.
func (c *Copier) copyAt(w *Writer, live Live, at int64, named bool) (Pointer, error) {
	p := live.Pointer
	if p.Length > windowSize {
		return c.copyLarge(w, live)
	}
	if err := c.pause(p.Length); err != nil {
		return Pointer{}, err
	}
	ahead := int64(0)
	if at >= c.last && at-c.last <= sequentialGap {
		ahead = c.ahead
	}
	in := &c.in
	if p.Length > c.ahead { // there may be many Copiers, each with a long record once
		in = &w.copied
		in.file, in.buf = c.src.file, in.buf[:0]
	}
	rec, err := in.read(at, p.Length, c.v.end, ahead)
	if err != nil {
		return Pointer{}, err
	}
	c.last = at + p.Length
	h, err := decodeHeader(rec, at, at+p.Length)
	if err != nil {
		return Pointer{}, err
	}
	if h.size() != p.Length || !h.is(p, live.Key, live.Seq, rec) {
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

// copyLarge copies a chunked value without having all of it in memory.
func (c *Copier) copyLarge(w *Writer, live Live) (Pointer, error) {
	in, err := c.src.NewValueReader(live.Pointer, live.Key, live.Seq)
	if err != nil {
		return Pointer{}, err
	}
	out, err := w.Stream(live.Key)
	if err != nil {
		return Pointer{}, err
	}
	if _, err := io.Copy(out, &pausing{in, c}); err != nil {
		out.Abort()
		return Pointer{}, err
	}
	return out.Finish(live.Seq)
}

// pause asks Stop if enough has been copied, now that it is so many bytes more.
func (c *Copier) pause(bytes int64) error {
	if c.patience -= bytes; c.patience >= 0 || c.Stop == nil {
		return nil
	}
	c.patience = stopEvery
	return c.Stop()
}

// A pausing is a reader that pauses for what it reads.
type pausing struct {
	in *ValueReader
	c  *Copier
}

func (p *pausing) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if err == nil {
		err = p.c.pause(int64(n))
	}
	return n, err
}

// Close ends the reading of the file, for good.
func (c *Copier) Close() error {
	c.in.release()
	return c.src.Close()
}
