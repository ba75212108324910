package record

import "github.com/stoatdb/stoat/internal/invariant"

// A Builder makes the frames of one file, in order, in a buffer that its user
// writes out and resets. The zero Builder is not usable; see NewBuilder.
type Builder struct {
	buf []byte
	// start is where in buf the frame that is being built begins. Without one
	// it is the length of buf.
	start int
	// split says that a part of the current record has been sealed.
	split bool
	// offset is where in the file the frame at start goes.
	offset     int64
	salt       uint64
	chain      uint64
	claimed    int64
	payloadMax int
	early      uint8
}

// NewBuilder returns a builder of the frames of a fresh file with the given
// salt, with payloads of at most payloadMax bytes.
func NewBuilder(salt uint64, payloadMax int) Builder {
	invariant.Check(payloadMax > 0, "payloadMax is %d", payloadMax)
	invariant.Check(payloadMax <= MaxPayload, "payloadMax is %d", payloadMax)
	return Builder{offset: Start, salt: salt, chain: salt, payloadMax: payloadMax}
}

// ContinueBuilder returns a builder that goes on at offset after a frame with
// the checksum chain.
func ContinueBuilder(salt uint64, payloadMax int, offset int64, chain uint64) Builder {
	b := NewBuilder(salt, payloadMax)
	b.offset, b.chain = offset, chain
	return b
}

// Switch turns to a fresh file with the given salt. The buffer must have been
// written out and Reset.
func (b *Builder) Switch(salt uint64) {
	invariant.Check(len(b.buf) == 0, "%d bytes left for the old file", len(b.buf))
	b.offset, b.salt, b.chain, b.claimed = Start, salt, salt, 0
}

// SetEarly sets whether the frames that follow carry the early mark.
func (b *Builder) SetEarly(on bool) {
	b.early = 0
	if on {
		b.early = early
	}
}

// Offset returns where in the file the next frame will go.
func (b *Builder) Offset() int64 { return b.offset }

// Claimed returns the highest durable mark of the frames of the file that were
// built here; 0 if there are none.
func (b *Builder) Claimed() int64 { return b.claimed }

// Chain returns the checksum of the last frame.
func (b *Builder) Chain() uint64 { return b.chain }

// Sealed returns the finished frames since the last Reset, and where in the
// file they belong.
func (b *Builder) Sealed() (p []byte, offset int64) {
	return b.buf[:b.start], b.offset - int64(b.start)
}

// Reset forgets the finished frames. A frame under way stays.
func (b *Builder) Reset() {
	b.buf = b.buf[:copy(b.buf, b.buf[b.start:])]
	b.start = 0
}

// Begin starts a record.
func (b *Builder) Begin() {
	invariant.Check(b.start == len(b.buf), "a record within a record")
	b.split = false
	b.open()
}

// open makes room for the header of a frame.
func (b *Builder) open() {
	var header [FrameHeaderSize]byte
	b.buf = append(b.buf, header[:]...)
}

// Write appends p to the record. When a frame becomes full, Write seals it,
// carrying the durable mark, and returns what is left of p, at least a byte;
// the caller may then write out and Reset before it calls Write with the rest.
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

// Frame appends a frame of a kind that is not a record.
func (b *Builder) Frame(kind Kind, payload []byte, durable int64) {
	invariant.Check(b.start == len(b.buf), "a frame within a frame")
	invariant.Check(len(payload) <= MaxPayload, "a frame with a payload of %d bytes", len(payload))
	b.open()
	b.buf = append(b.buf, payload...)
	b.seal(kind, durable)
}

// CloseRoom is the most that Finish appends.
const CloseRoom = 2*pageSize + FrameHeaderSize + FrameHeaderSize

// FinishFrames is how many frames Finish appends.
const FinishFrames = 3

// Finish appends the frames that end a file in order: two Marks and a frame of
// the given kind, which begin in three different pages, so that no damage to
// two sectors takes away a record at the end together with all that says that
// it was there. Everything before must be durable, which is what they say.
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

// seal finishes the frame under way.
func (b *Builder) seal(kind Kind, durable int64) {
	n := len(b.buf) - b.start - FrameHeaderSize
	invariant.Check(durable <= b.offset, "durable mark %d in a frame at %d", durable, b.offset)
	for len(b.buf)&(alignment-1) != 0 {
		b.buf = append(b.buf, 0)
	}
	b.claimed = max(b.claimed, durable)
	b.chain = sealFrame(b.buf[b.start:], uint8(kind)|b.early, n, b.salt, b.chain, b.offset, durable)
	b.offset += int64(len(b.buf) - b.start)
	b.start = len(b.buf)
}
