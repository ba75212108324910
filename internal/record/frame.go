package record

import (
	"crypto/cipher"
	"encoding/binary"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

const (
	// FrameHeaderSize is the size in bytes of a frame without its payload.
	FrameHeaderSize = 32
	// MaxPayload is the size in bytes of the largest payload of one frame. With
	// its header it is exactly 1 MiB, the most that a reader must hold to verify
	// a frame.
	MaxPayload = 1<<20 - FrameHeaderSize

	// alignment is the alignment of frames in their file, in bytes.
	alignment = 8

	// early is the bit of the kind byte that marks frames written before
	// anything outside the file referred to it.
	early = 0x80
)

// A Kind says what a frame is. The numbers are part of the format.
type Kind uint8

// The kinds.
const (
	// Whole is a record in one frame.
	Whole Kind = 1
	// First, Middle and Last are the parts of a record larger than a frame.
	First  Kind = 2
	Middle Kind = 3
	Last   Kind = 4
	// Mark carries a durable mark. Its payload, if any, is zeros.
	Mark Kind = 5
	// Next is the last frame of a file that continues in another one. The
	// payload names that file.
	Next Kind = 6
	// Close is the last frame of a file that its writer closed cleanly. It has no payload.
	Close Kind = 7
)

// known reports whether k is a kind of this format.
func (k Kind) known() bool { return k >= Whole && k <= Close }

// String names the kind for error messages.
func (k Kind) String() string {
	names := [...]string{Whole: "whole", First: "first", Middle: "middle", Last: "last",
		Mark: "mark", Next: "next", Close: "close"}
	if k.known() {
		return names[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// A Frame is one decoded frame. NextRecord returns a whole record in the same form. Early,
// Offset and Chain are then those of its first frame. End, Checksum and Durable are those of
// its last.
type Frame struct {
	Kind Kind
	// Early says that the frame was written before anything outside the file
	// referred to the file.
	Early bool
	// Payload is borrowed from the reader until its next call.
	Payload []byte
	// Offset is where the frame starts in its file, End where it ends.
	Offset, End int64
	Checksum    uint64
	Chain       uint64
	Durable     int64
}

// FrameSize returns the size in bytes of a frame with a payload of n bytes.
func FrameSize(n int64) int64 {
	return (FrameHeaderSize + n + alignment - 1) &^ (alignment - 1)
}

// Size returns the size in bytes of the frames of a record of n bytes, with
// payloads of at most payloadMax bytes.
func Size(n int64, payloadMax int) int64 {
	if n <= int64(payloadMax) {
		return FrameSize(n)
	}
	full := n / int64(payloadMax)
	size := full * FrameSize(int64(payloadMax))
	if rest := n % int64(payloadMax); rest > 0 {
		size += FrameSize(rest)
	}
	return size
}

// seed returns the seed of the checksum of the frame at offset. The odd factor
// spreads neighbouring offsets over all bits.
func seed(salt uint64, offset int64) uint64 {
	if mutant.On(mutant.IgnoreSalt) {
		salt = 0
	}
	return salt + uint64(offset)*0x9e3779b97f4a7c15
}

// tag returns the word at offset 8 of a frame in a file with this salt, with
// kind zero.
func tag(salt uint64) uint32 {
	if mutant.On(mutant.IgnoreSalt) {
		salt = 0
	}
	return uint32(salt>>40) << 8
}

// sealFrame fills in the header of a frame and returns the checksum. b holds
// room for the header, the payload of n bytes and the padding. With a cipher, sealFrame
// encrypts the frame; then b needs room for tagSize bytes more.
func sealFrame(b []byte, kind uint8, n int, salt, chain uint64, offset, durable int64, aead cipher.AEAD) uint64 {
	binary.LittleEndian.PutUint32(b[8:], tag(salt)|uint32(kind))
	binary.LittleEndian.PutUint32(b[12:], uint32(n))
	binary.LittleEndian.PutUint64(b[24:], uint64(durable))
	if aead != nil {
		return encryptFrame(aead, b, offset)
	}
	binary.LittleEndian.PutUint64(b[16:], chain)
	sum := base.Checksum(b[8:], seed(salt, offset))
	binary.LittleEndian.PutUint64(b, sum)
	return sum
}
