package record

import (
	"crypto/cipher"
	"slices"

	"github.com/stoatdb/stoat/internal/invariant"
)

// A Builder builds the frames of one file, in order, in a buffer that the caller
// writes out and resets. The zero Builder is not usable; see NewBuilder.
type Builder struct {
	buf []byte
	// start is the index in buf of the unfinished frame. Without one it is the
	// length of buf.
	start int
	// split says that the current record has a finished frame already.
	split bool
	// offset is the place of the frame at start in the file.
	offset     int64
	salt       uint64
	chain      uint64
	claimed    int64
	payloadMax int
	early      uint8
	aead       cipher.AEAD // nil if the file is not sealed
}

// NewBuilder returns a builder of the frames of a fresh file with the given
// salt. Payloads have at most payloadMax bytes. aead seals the frames; it is nil for a
// plain file.
func NewBuilder(salt uint64, payloadMax int, aead cipher.AEAD) Builder {
	invariant.Check(payloadMax > 0, "payloadMax is %d", payloadMax)
	invariant.Check(payloadMax <= MaxPayload, "payloadMax is %d", payloadMax)
	return Builder{offset: Start, salt: salt, chain: salt, payloadMax: payloadMax, aead: aead}
}

// ContinueBuilder returns a builder that continues at offset, after a frame with
// the checksum chain. A caller must not continue a sealed file that it has read: a
// crash may have lost a frame there, whose nonce is used.
func ContinueBuilder(salt uint64, aead cipher.AEAD, offset int64, chain uint64) Builder {
	b := NewBuilder(salt, MaxPayload, aead)
	b.offset, b.chain = offset, chain
	return b
}

// Switch continues in a fresh file with the given salt and cipher. The caller must have
// written out the buffer and called Reset.
func (b *Builder) Switch(salt uint64, aead cipher.AEAD) {
	invariant.Check(len(b.buf) == 0, "%d bytes of the old file are not written", len(b.buf))
	b.offset, b.salt, b.chain, b.claimed, b.aead = Start, salt, salt, 0, aead
}

// SetEarly sets whether later frames carry the early mark.
func (b *Builder) SetEarly(on bool) {
	b.early = 0
	if on {
		b.early = early
	}
}

// Offset returns the place of the next frame in the file.
func (b *Builder) Offset() int64 { return b.offset }

// Claimed returns the highest durable mark of the frames built for this file, or
// 0 if there are none.
func (b *Builder) Claimed() int64 { return b.claimed }

// Chain returns the checksum of the last frame.
func (b *Builder) Chain() uint64 { return b.chain }

// Sealed returns the finished frames since the last Reset, and their place in
// the file.
func (b *Builder) Sealed() (p []byte, offset int64) {
	return b.buf[:b.start], b.offset - int64(b.start)
}

// Reset drops the finished frames. An unfinished frame stays.
func (b *Builder) Reset() {
	b.buf = b.buf[:copy(b.buf, b.buf[b.start:])]
	b.start = 0
}

// Begin starts a record.
func (b *Builder) Begin() {
	invariant.Check(b.start == len(b.buf), "Begin within a record")
	b.split = false
	b.open()
}

// open makes room for the header of a frame.
func (b *Builder) open() {
	var header [FrameHeaderSize]byte
	b.buf = append(b.buf, header[:]...)
}

// Write appends p to the record. If a frame becomes full, Write seals it with
// the durable mark and returns the rest of p, at least one byte. The caller may
// then write out and Reset before it calls Write with the rest.
func (b *Builder) Write(p []byte, durable int64) (rest []byte) {
	if b.start == len(b.buf) {
		b.open()
	}
	room := b.payloadMax - (len(b.buf) - b.start - FrameHeaderSize)
	if len(p) <= room {
		b.buf = append(b.buf, p...)
		return nil
	}
	b.buf = append(b.buf, p[:room]...)
	kind := First
	if b.split {
		kind = Middle
	}
	b.split = true
	b.seal(kind, durable)
	return p[room:]
}

// End finishes the record.
func (b *Builder) End(durable int64) {
	kind := Whole
	if b.split {
		kind = Last
	}
	b.seal(kind, durable)
}

// Frame appends a frame of a kind that is not part of a record.
func (b *Builder) Frame(kind Kind, payload []byte, durable int64) {
	invariant.Check(b.start == len(b.buf), "Frame within a record")
	invariant.Check(len(payload) <= MaxPayload, "a frame with a payload of %d bytes", len(payload))
	b.open()
	b.buf = append(b.buf, payload...)
	b.seal(kind, durable)
}

// CloseRoom is the most that Finish appends, in bytes.
const CloseRoom = 2*pageSize + FrameHeaderSize + FrameHeaderSize

// FinishFrames is how many frames Finish appends.
const FinishFrames = 3

// Finish appends the frames that end a file cleanly: two Marks and a frame of
// the given kind. They begin in three different pages. So damage to two sectors
// cannot remove the last record together with all evidence that it existed. The
// frames say that everything before them is durable, so it must be.
func (b *Builder) Finish(kind Kind, durable int64) {
	var zeros [pageSize]byte
	for range 2 {
		gap := pageSize - (b.offset+FrameHeaderSize)%pageSize
		b.Frame(Mark, zeros[:gap%pageSize], durable)
	}
	b.Frame(kind, nil, durable)
}

// Record appends a whole record. Its frames stay in the buffer.
func (b *Builder) Record(p []byte, durable int64) {
	b.Begin()
	for p = b.Write(p, durable); len(p) > 0; {
		p = b.Write(p, durable)
	}
	b.End(durable)
}

// seal finishes the current frame.
func (b *Builder) seal(kind Kind, durable int64) {
	n := len(b.buf) - b.start - FrameHeaderSize
	invariant.Check(durable <= b.offset, "durable mark %d in a frame at %d", durable, b.offset)
	for len(b.buf)&(alignment-1) != 0 {
		b.buf = append(b.buf, 0)
	}
	b.claimed = max(b.claimed, durable)
	if b.aead != nil {
		b.buf = slices.Grow(b.buf, tagSize)
	}
	b.chain = sealFrame(b.buf[b.start:], uint8(kind)|b.early, n, b.salt, b.chain, b.offset, durable, b.aead)
	b.offset += int64(len(b.buf) - b.start)
	b.start = len(b.buf)
}
