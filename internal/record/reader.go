package record

import (
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// readSize is how many bytes a reader reads at once, unless a frame is larger.
const readSize = 256 << 10

// readFirst is how many bytes a live reader reads at the end of what was written.
const readFirst = 4 << 10

// A Reader reads the frames of one file in order. It holds at most one frame or
// readSize bytes of the file, whatever the file contains.
type Reader struct {
	src  io.ReaderAt
	end  int64 // frames end here at the latest
	salt uint64
	aead cipher.AEAD // nil if the file is not sealed

	offset int64  // of the next frame
	chain  uint64 // checksum of the last frame
	last   int64  // where the last frame starts, 0 if Next has returned none

	window    []byte // bytes of the file from windowOff on
	windowOff int64
	fills     int // how often window was read

	plain   []byte // the decrypted frame
	partial []byte // the record assembled so far

	checked int64 // bytes whose checksum was computed

	// whole says that the file has no torn tail before end.
	whole bool
	// live says that another process may append to the file.
	live bool
	// readNext is how many bytes a live reader reads next, at most readSize.
	readNext int
	// midway says that partial has the first frames of record first.
	midway bool
	first  Frame

	err     error // what every later call returns
	bad     *base.CorruptionError
	claimed int64 // the highest durable mark of a frame that verified
}

// NewReader returns a reader of the frames of a file with the given salt, from
// the first one up to end. end is the size of the file, or the known end of its
// valid part. aead is the cipher of a sealed file, nil for a plain one.
func NewReader(src io.ReaderAt, end int64, salt uint64, aead cipher.AEAD) *Reader {
	return &Reader{src: src, end: end, salt: salt, aead: aead, offset: Start, chain: salt}
}

// ContinueReader returns a reader that continues at offset, after a frame with
// the checksum chain.
func ContinueReader(src io.ReaderAt, end int64, salt uint64, aead cipher.AEAD, offset int64, chain uint64) *Reader {
	return &Reader{src: src, end: end, salt: salt, aead: aead, offset: offset, chain: chain}
}

// Demand sets whether the caller knows that frames follow. If so, a frame that
// does not verify is a CorruptionError, and the reader does not look at the
// bytes behind it.
func (r *Reader) Demand(whole bool) { r.whole = whole }

// Follow makes the reader read a file to which another process may append. The reader takes
// a frame that does not verify for one that is not written yet. It returns io.EOF and does
// not look at the bytes behind the frame. At the next call it reads that place again. So it
// takes damage at the end for a frame that is about to come.
func (r *Reader) Follow() { r.live = true }

// Offset returns where the next frame is expected or, after io.EOF, where the
// frames ended.
func (r *Reader) Offset() int64 { return r.offset }

// Chain returns the checksum of the last frame.
func (r *Reader) Chain() uint64 { return r.chain }

// Kept reports whether the file still has the last frame that Next returned. A live file may
// lose a frame whose sync failed, and another process then writes others in its place.
func (r *Reader) Kept() (bool, error) {
	if r.last == 0 {
		return true, nil
	}
	var b [8]byte // the checksum comes first
	if n, err := r.src.ReadAt(b[:], r.last); n < len(b) {
		return false, shortRead(r.last, n, len(b), err)
	}
	return binary.LittleEndian.Uint64(b[:]) == r.chain, nil
}

// Torn describes, after io.EOF, why Offset has no frame. It is nil if the file
// has no room for another one. Only a caller that knows that a frame must be
// there treats it as an error.
func (r *Reader) Torn() *base.CorruptionError { return r.bad }

// Claimed returns the highest durable mark of the frames that Next returned and, after
// io.EOF, of those beyond Offset. It is 0 if there are none.
func (r *Reader) Claimed() int64 { return r.claimed }

// Next returns the next frame. io.EOF says that the frames end here; any bytes
// behind were never known to be durable. A CorruptionError says that frames
// which were once durable are broken.
func (r *Reader) Next() (Frame, error) {
	if r.err != nil {
		return Frame{}, r.err
	}
	fills := r.fills
	f, bad, err := r.frameAt(r.offset)
	if bad != nil && r.live && r.fills == fills {
		// The file may have more than when it was read.
		r.window = r.window[:0]
		f, bad, err = r.frameAt(r.offset)
	}
	switch {
	case err != nil:
	case bad != nil && r.live:
		r.window, r.readNext = r.window[:0], readFirst
		return Frame{}, io.EOF
	case bad != nil:
		err = r.settle(bad)
	case f.Chain != r.chain:
		err = base.Corrupt(f.Offset, "frame chain", hex(f.Chain), hex(r.chain))
	default:
		r.offset, r.chain, r.last = f.End, f.Checksum, f.Offset
		r.claimed = max(r.claimed, f.Durable)
		return f, nil
	}
	r.err = err
	return Frame{}, err
}

// frameAt decodes the frame at offset. It returns the defect of a bad frame as
// bad, and a failed read as err.
func (r *Reader) frameAt(offset int64) (f Frame, bad *base.CorruptionError, err error) {
	rest := r.end - offset
	if rest < FrameHeaderSize {
		return Frame{}, base.Corrupt(offset, "frame header size", rest, FrameHeaderSize), nil
	}
	b, err := r.read(offset, FrameHeaderSize)
	if err != nil {
		return Frame{}, nil, err
	}
	word := binary.LittleEndian.Uint32(b[8:])
	kind := Kind(word &^ early)
	if word&^0xff != tag(r.salt) || !kind.known() {
		return Frame{}, base.Corrupt(offset, "frame kind and tag", hex(word), hex(tag(r.salt))), nil
	}
	length := int64(binary.LittleEndian.Uint32(b[12:]))
	if length > MaxPayload || FrameSize(length) > rest {
		return Frame{}, base.Corrupt(offset, "frame length", length,
			fmt.Sprintf("at most %d", min(MaxPayload, rest-FrameHeaderSize))), nil
	}
	if b, err = r.read(offset, int(FrameSize(length))); err != nil {
		return Frame{}, nil, err
	}
	r.checked += int64(len(b))
	f = Frame{
		Kind:    kind,
		Early:   word&early != 0,
		Offset:  offset,
		End:     offset + FrameSize(length),
		Durable: int64(binary.LittleEndian.Uint64(b[24:])),
	}
	body, bad := r.openFrame(&f, b)
	if bad != nil {
		return Frame{}, bad, nil
	}
	f.Payload = body[:length]
	zeros := length // where they begin
	switch {
	case kind == Mark:
		zeros = 0
	case kind == Close && length > 0:
		return Frame{}, base.Corrupt(offset, "length of a close frame's payload", length, 0), nil
	}
	for i, c := range body[zeros:] {
		if c != 0 {
			return Frame{}, base.Corrupt(offset+FrameHeaderSize+zeros+int64(i), "padding", c, 0), nil
		}
	}
	if f.Durable < 0 || f.Durable > offset {
		return Frame{}, base.Corrupt(offset, "durable mark", uint64(f.Durable),
			fmt.Sprintf("at most %d", offset)), nil
	}
	return f, nil, nil
}

// openFrame verifies the frame in b and returns its payload with the padding. It sets the
// checksum and the chain of f. A sealed frame stores no chain: only one frame was ever
// sealed for this offset in this use of the file.
func (r *Reader) openFrame(f *Frame, b []byte) (body []byte, bad *base.CorruptionError) {
	want := binary.LittleEndian.Uint64(b)
	if r.aead != nil {
		var ok bool
		if r.plain, ok = decryptFrame(r.aead, r.plain, b, f.Offset); !ok {
			return nil, base.Corrupt(f.Offset, "sealed frame", "a wrong tag", "the tag of its contents")
		}
		f.Checksum, f.Chain = want, r.chain
		return r.plain, nil
	}
	got := base.Checksum(b[8:], seed(r.salt, f.Offset))
	if got != want && !mutant.On(mutant.NoChecksum) {
		return nil, base.Corrupt(f.Offset, "frame checksum", hex(got), hex(want))
	}
	f.Checksum, f.Chain = got, binary.LittleEndian.Uint64(b[16:])
	return b[FrameHeaderSize:], nil
}

// settle decides what a bad frame at the reader's offset means: a
// CorruptionError if the frame was once durable, otherwise io.EOF.
func (r *Reader) settle(bad *base.CorruptionError) error {
	if r.end-r.offset < FrameHeaderSize {
		return io.EOF
	}
	if r.whole {
		return bad
	}
	marked, err := r.scan(r.offset+alignment, func(f Frame) bool {
		r.claimed = max(r.claimed, f.Durable)
		return f.Durable > r.offset
	})
	if err != nil {
		return err
	}
	if marked && !mutant.On(mutant.IgnoreDurableMark) {
		return bad
	}
	r.bad = bad
	return io.EOF
}

// scanSlack is how many more bytes than the rest of the file a scan may check.
const scanSlack = 64 << 20

// scan searches every place from offset on for a frame that verifies by itself,
// until found returns true. Frames do not overlap, and few places look like a
// frame by chance. So scan gives up on a file that an attacker made to keep it
// busy.
func (r *Reader) scan(offset int64, found func(Frame) bool) (bool, error) {
	most := r.checked + r.end - offset + scanSlack
	for r.end-offset >= FrameHeaderSize {
		if r.checked > most {
			return false, base.Corrupt(offset, "broken frames", "overlapping", "not overlapping")
		}
		b, err := r.ahead(offset)
		if err != nil {
			return false, err
		}
		i := findTag(b, tag(r.salt))
		offset += int64(i)
		if i+FrameHeaderSize > len(b) {
			continue
		}
		f, bad, err := r.frameAt(offset)
		switch {
		case err != nil:
			return false, err
		case bad != nil:
			offset += alignment
		case found(f):
			return true, nil
		default:
			offset = f.End
		}
	}
	return false, nil
}

// findTag returns the first aligned index in b at which a frame with this tag may start.
// Without one, it returns the first index at which b is too short to tell.
func findTag(b []byte, tag uint32) int {
	i := 0
	for ; i+FrameHeaderSize <= len(b); i += alignment {
		word := binary.LittleEndian.Uint32(b[i+8:])
		if word&^0xff == tag && word&0xff != 0 {
			break
		}
	}
	return i
}

// AnyFrame reports whether any frame of the file's current use verifies and
// satisfies match, at any place.
func AnyFrame(src io.ReaderAt, end int64, salt uint64, aead cipher.AEAD, match func(Frame) bool) (bool, error) {
	return NewReader(src, end, salt, aead).scan(Start, match)
}

// ahead returns the buffered bytes of the file from offset on, at least the
// header of a frame.
func (r *Reader) ahead(offset int64) ([]byte, error) {
	if _, err := r.read(offset, FrameHeaderSize); err != nil {
		return nil, err
	}
	return r.window[offset-r.windowOff:], nil
}

// read returns n bytes of the file at offset, which must lie below the end. They
// are valid until the next read.
func (r *Reader) read(offset int64, n int) ([]byte, error) {
	if i := offset - r.windowOff; i >= 0 && i+int64(n) <= int64(len(r.window)) {
		return r.window[i : i+int64(n)], nil
	}
	size := int(min(max(int64(n), r.readSize()), r.end-offset))
	if cap(r.window) < size {
		r.window = make([]byte, size)
	}
	r.window, r.windowOff = r.window[:size], offset
	r.fills++
	got, err := r.src.ReadAt(r.window, offset)
	if got < size {
		r.window = r.window[:0]
		return nil, shortRead(offset, got, size, err)
	}
	return r.window[:n], nil
}

// readSize returns how many bytes to read at once. A live reader begins with few: mostly it
// is at the end of what was written.
func (r *Reader) readSize() int64 {
	if !r.live {
		return readSize
	}
	size := max(r.readNext, readFirst)
	r.readNext = min(4*size, readSize)
	return int64(size)
}

// shortRead returns the error for a read of want bytes at offset that returned
// got bytes and err. All of them lie below the file's end.
func shortRead(offset int64, got, want int, err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return base.Corrupt(offset+int64(got), "bytes read", got, want)
	}
	return fmt.Errorf("read %d bytes at offset %d: %w", want, offset, err)
}

// hex formats a number as all messages of this package do.
func hex[T uint32 | uint64](v T) string { return fmt.Sprintf("%#x", v) }
