package backup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/codec"
)

// A file of frames begins with a prefix:
//
//	offset  size  field
//	0       8     type: stoatBAK, or stoatRES for the journal of a restore
//	8       4     format version: 1
//	12      4     zero
//
// Each frame follows the one before:
//
//	offset  size  field
//	0       8     checksum of bytes 8 to the end of the frame
//	8       4     n, the length of the stored payload
//	12      4     length of the payload before compression
//	16      1     kind
//	17      1     codec
//	18      6     zero
//	24      n     payload
//
// The seed of a frame's checksum is the checksum of the frame before, or that of the
// prefix with seed 0. So no frame verifies in another place or in another file: the first
// frame holds a random number.
const (
	prefixSize = 16
	frameSize  = 24 // without the payload
	version    = 1

	// TypeBackup is the type of a backup.
	TypeBackup  = "stoatBAK"
	typeJournal = "stoatRES"

	// payloadMax is the largest payload of a frame in bytes.
	payloadMax = 16 << 20
	// readStep is the number of bytes of a payload that a reader allocates before it has
	// read those before.
	readStep = 1 << 20
)

// The kinds of frames.
const (
	frameHeader = 1 // a part of the header
	frameItems  = 2 // versions of keys
	frameChunk  = 3 // a part of the value of the last item
	frameEnd    = 4 // the end of the file
	frameEdit   = 5 // files that a restore has made
)

// A frame is a frame with room for its header in front of the stored payload.
type frame struct {
	bytes []byte // the first frameSize bytes are the header
	// entries and unchanged count the items of the payload.
	entries, unchanged uint64
}

// newFrame returns a frame with the payload raw, compressed if that saves enough. comp may
// be nil. buf is memory for it.
func newFrame(kind uint8, raw []byte, comp *codec.Compressor, buf []byte) frame {
	id, stored := codec.None, raw
	if comp != nil {
		id, stored = comp.Compress(raw)
	}
	b := append(buf[:0], make([]byte, frameSize)...)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(stored)))
	binary.LittleEndian.PutUint32(b[12:], uint32(len(raw)))
	b[16], b[17] = kind, byte(id)
	return frame{bytes: append(b, stored...)}
}

// appendPrefix appends the prefix of a file to dst.
func appendPrefix(dst []byte, kind string) []byte {
	dst = append(dst, kind...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// A frameWriter writes the frames of one file.
type frameWriter struct {
	w     io.Writer
	chain uint64
}

// newFrameWriter writes the prefix of a file.
func newFrameWriter(w io.Writer, kind string) (*frameWriter, error) {
	prefix := appendPrefix(nil, kind)
	_, err := w.Write(prefix)
	return &frameWriter{w, base.Checksum(prefix, 0)}, err
}

// write completes and writes a frame.
func (w *frameWriter) write(f frame) error {
	w.chain = base.Checksum(f.bytes[8:], w.chain)
	binary.LittleEndian.PutUint64(f.bytes, w.chain)
	n, err := w.w.Write(f.bytes)
	if err == nil && n < len(f.bytes) {
		err = io.ErrShortWrite
	}
	return err
}

// A frameReader reads the frames of one file.
type frameReader struct {
	r      io.Reader
	offset int64 // of the next frame
	chain  uint64
	head   [frameSize]byte
	stored []byte
	raw    []byte
}

// newFrameReader reads the prefix of a file.
func newFrameReader(r io.Reader, kind string) (*frameReader, error) {
	f := &frameReader{r: r}
	var prefix [prefixSize]byte
	if err := f.fill(prefix[:], "prefix"); err != nil {
		return nil, err
	}
	if got := string(prefix[:8]); got != kind {
		return nil, base.Corrupt(0, "type of the file", fmt.Sprintf("%q", got), fmt.Sprintf("%q", kind))
	}
	if v := binary.LittleEndian.Uint32(prefix[8:]); v > version {
		return nil, fmt.Errorf("%w: a backup of format version %d, this version knows %d", base.ErrVersion, v, version)
	} else if v != version || binary.LittleEndian.Uint32(prefix[12:]) != 0 {
		return nil, base.Corrupt(8, "format version", v, version)
	}
	f.offset, f.chain = prefixSize, base.Checksum(prefix[:], 0)
	return f, nil
}

// fill reads all of b. The end of the file is corruption.
func (f *frameReader) fill(b []byte, what string) error {
	n, err := io.ReadFull(f.r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return base.Corrupt(f.offset, "end of the file in a "+what, n, len(b))
	}
	return err
}

// next returns the payload of the next frame, until the call after.
func (f *frameReader) next() (kind uint8, payload []byte, err error) {
	if err := f.fill(f.head[:], "frame"); err != nil {
		return 0, nil, err
	}
	n, raw := binary.LittleEndian.Uint32(f.head[8:]), binary.LittleEndian.Uint32(f.head[12:])
	kind, id := f.head[16], codec.ID(f.head[17])
	if n > payloadMax || raw > payloadMax || id == codec.None && n != raw || id != codec.None && raw > codec.SizeMax {
		return 0, nil, base.Corrupt(f.offset, "length of a frame", fmt.Sprintf("%d of %d", n, raw), "a valid length")
	}
	f.stored = append(f.stored[:0], f.head[8:]...)
	for left := int(n); left > 0; {
		step := min(left, readStep)
		at := len(f.stored)
		f.stored = append(f.stored, make([]byte, step)...)
		if err := f.fill(f.stored[at:], "frame"); err != nil {
			return 0, nil, err
		}
		left -= step
	}
	sum := binary.LittleEndian.Uint64(f.head[:])
	if got := base.Checksum(f.stored, f.chain); got != sum {
		return 0, nil, base.Corrupt(f.offset, "checksum of a frame", fmt.Sprintf("%#x", got), fmt.Sprintf("%#x", sum))
	}
	if rest := [6]byte(f.head[18:]); rest != [6]byte{} {
		return 0, nil, base.Corrupt(f.offset+18, "end of a frame's header", fmt.Sprintf("%x", rest), "zeros")
	}
	payload = f.stored[frameSize-8:]
	if id != codec.None {
		if cap(f.raw) < int(raw) {
			f.raw = make([]byte, raw)
		}
		f.raw = f.raw[:raw]
		if err := id.Decode(f.raw, payload); err != nil {
			return 0, nil, err
		}
		payload = f.raw
	}
	f.offset += frameSize + int64(n)
	f.chain = sum
	return kind, payload, nil
}

// at adds the offset of the frame to an error of the decoder of items.
func (f *frameReader) at(err error) error {
	if c, ok := err.(*base.CorruptionError); ok && c.Offset < 0 {
		c.Offset = f.offset
	}
	return err
}

// unexpected returns the error for a frame of a kind that must not follow.
func (f *frameReader) unexpected(kind uint8) error {
	return base.Corrupt(f.offset, "frame of a kind that does not belong here", kind, "another one")
}

// chunk returns the next part of a value, or nothing at its end. left is how many bytes of
// the value are still to read.
func (f *frameReader) chunk(left *uint64) ([]byte, error) {
	if *left == 0 {
		return nil, nil
	}
	kind, p, err := f.next()
	switch {
	case err != nil:
		return nil, err
	case kind != frameChunk:
		return nil, f.unexpected(kind)
	case uint64(len(p)) != min(*left, LargeMin):
		return nil, base.Corrupt(f.offset, "length of a part of a value", len(p), min(*left, LargeMin))
	}
	*left -= uint64(len(p))
	return p, nil
}

// atEnd returns nil if no byte follows.
func (f *frameReader) atEnd() error {
	var b [1]byte
	n, err := io.ReadFull(f.r, b[:])
	if n > 0 {
		return base.Corrupt(f.offset, "bytes after the end", "some", "none")
	}
	if err == io.EOF {
		return nil
	}
	return err
}
