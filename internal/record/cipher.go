package record

import (
	"crypto/cipher"
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A Sealer makes the ciphers of files. Each use of a file has a key of its own, which
// the Sealer derives from a data key, a salt and a label. Two uses never share a salt.
type Sealer interface {
	// NewFile returns the cipher for a new use of a file.
	NewFile(label string) (base.KeyRef, cipher.AEAD, error)
	// OpenFile returns the cipher that NewFile returned with ref for the same label.
	OpenFile(ref base.KeyRef, label string) (cipher.AEAD, error)
}

// tagSize is the length of the tag that authenticates a frame or a header, in bytes.
const tagSize = 16

// A nonce is unique among all that one key seals. A frame has its offset, because no
// offset is written twice in one use of a file. The header has headerNonce.
type nonce [12]byte

// headerNonce is no offset of a frame.
var headerNonce = nonce{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// frameNonce returns the nonce of the frame at offset.
func frameNonce(offset int64) (n nonce) {
	if !mutant.On(mutant.FrameNonce) {
		binary.BigEndian.PutUint64(n[:], uint64(offset))
	}
	return n
}

// frameData returns what a sealed frame authenticates and leaves readable: the kind,
// the tag of the file, the length, and the durable mark.
func frameData(b []byte) (data [16]byte) {
	copy(data[:8], b[8:16])
	copy(data[8:], b[24:32])
	return data
}

// encryptFrame seals a frame in place. b holds the header, the payload and the padding,
// and has room for tagSize bytes more. The tag replaces checksum and chain.
func encryptFrame(aead cipher.AEAD, b []byte, offset int64) uint64 {
	n, data := frameNonce(offset), frameData(b)
	sealed := aead.Seal(b[FrameHeaderSize:FrameHeaderSize], n[:], b[FrameHeaderSize:], data[:])
	body := len(b) - FrameHeaderSize
	copy(b[FrameHeaderSize:], sealed[:body])
	putTag(b, sealed[body:])
	return binary.LittleEndian.Uint64(b)
}

// putTag stores the tag of a frame where a plain frame has its checksum and its chain.
func putTag(b, tag []byte) {
	copy(b, tag[:8])
	copy(b[16:24], tag[8:])
}

// decryptFrame returns the payload and the padding of the sealed frame in b, in the
// memory of dst. It reports false if the frame does not verify.
func decryptFrame(aead cipher.AEAD, dst, b []byte, offset int64) ([]byte, bool) {
	dst = append(dst[:0], b[FrameHeaderSize:]...)
	dst = append(append(dst, b[:8]...), b[16:24]...)
	n, data := frameNonce(offset), frameData(b)
	plain, err := aead.Open(dst[:0], n[:], dst, data[:])
	if err != nil {
		return dst, false
	}
	return plain, true
}
