package table

import (
	"errors"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// windowSize is the size of a large read in bytes.
const windowSize = 512 << 10

// A window is a part of the file in memory.
type window struct {
	buf  []byte
	from int64
}

func (w *window) has(off, n int64) bool {
	return off >= w.from && off+n <= w.from+int64(len(w.buf))
}

// windows are the buffers of an iterator that does not use the mapping. The values
// of a Fill must survive the next Fill, because a merge still returns the last of
// them then. A Fill covers at most one block and so loads at most one window of
// values. So two windows used in turn are enough, and so are two buffers of decoded
// values. Keys are copied and need one window.
type windows struct {
	keys  window
	vals  [2]window
	raw   [2][]byte
	turn  int // the window of values loaded last
	rawAt int // the buffer decoded into last
}

func (w *windows) reset() {
	w.keys.buf, w.vals[0].buf, w.vals[1].buf = w.keys.buf[:0], w.vals[0].buf[:0], w.vals[1].buf[:0]
}

// load returns the verified key part and values of block b.
func (w *windows) load(r *Reader, b int, opts IterOptions) (view, []byte, error) {
	e := r.entryOf(b)
	if err := r.checkEntry(b, &e); err != nil {
		return view{}, nil, r.inFile(err)
	}
	part, err := w.keys.read(r, b, keyPartOf, opts.Reverse)
	if err == nil {
		err = r.checkKeyPart(b, e, part)
	}
	if err != nil {
		return view{}, nil, err
	}
	v := makeView(e, part, r.opts.SeqShift)
	if opts.KeysOnly && !v.points() {
		return v, r.unread(&v), nil
	}
	n := int64(e.valLen)
	if !w.vals[w.turn].has(e.valOff, n) {
		w.turn = 1 - w.turn
	}
	stored, err := w.vals[w.turn].read(r, b, valuePartOf, opts.Reverse)
	if err == nil {
		err = r.checkValuePart(b, &v, stored)
	}
	if err != nil || e.codec == codec.None {
		return v, stored, err
	}
	w.rawAt = 1 - w.rawAt
	raw := room(w.raw[w.rawAt], int(e.rawLen()))
	w.raw[w.rawAt] = raw
	return v, raw, r.decode(&v, raw, stored)
}

// read returns a part of block b. If it must read, it reads much more: the adjacent
// parts of the same kind that follow or, in reverse, what comes before.
func (w *window) read(r *Reader, b int, part func(entry []byte) (off, n int64), reverse bool) ([]byte, error) {
	off, n := part(r.directory[b*blockEntrySize:])
	if !w.has(off, n) {
		from, to := off, r.endOfParts(b, part)
		if reverse {
			from, to = max(0, off+n-max(n, windowSize)), off+n
		}
		w.buf = room(w.buf, int(to-from))
		w.from = from
		if got, err := r.file.ReadAt(w.buf, from); got < len(w.buf) {
			w.buf = w.buf[:0]
			if errors.Is(err, io.EOF) {
				err = r.inFile(base.Corrupt(from+int64(got), "length of the file", "less", r.size))
			}
			return nil, err
		}
	}
	return w.buf[off-w.from:][:n:n], nil
}

// room returns n bytes with undefined contents, in the memory of b if there is enough. It
// takes no more memory than n bytes or windowSize.
func room(b []byte, n int) []byte {
	if n > cap(b) {
		b = make([]byte, n, max(n, min(2*n, windowSize)))
	}
	return b[:n]
}

// endOfParts returns the end of a sequence of adjacent parts that starts with the
// part of block b and is at most windowSize long.
func (r *Reader) endOfParts(b int, part func(entry []byte) (off, n int64)) int64 {
	off, n := part(r.directory[b*blockEntrySize:])
	end, most := off+n, min(off+windowSize, r.dataEnd)
	for b++; b < int(r.blocks); b++ {
		if off, n = part(r.directory[b*blockEntrySize:]); off != end || off+n > most {
			break
		}
		end += n
	}
	return end
}
