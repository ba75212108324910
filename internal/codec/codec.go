package codec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/stoatdb/stoat/internal/base"
)

// An ID says how bytes are stored. The numbers are part of the formats of tables
// and value files.
type ID uint8

const (
	// None stores bytes unchanged. Readers use them without a copy.
	None ID = iota
	// S2 is an S2 block: fast in both directions.
	S2
	// Zstd is a Zstandard frame: smaller than S2, and several times slower.
	Zstd

	// Last is the largest ID.
	Last = Zstd
)

// SizeMax is the greatest decoded length, in bytes, of one compressed block or
// value.
const SizeMax = 1 << 20

// zstdDecoder returns the decoder that all goroutines share. It starts no
// goroutines. The first call creates it.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(2*SizeMax), zstd.WithDecoderMaxWindow(2*SizeMax))
})

// Decode decodes stored into dst, whose length must be the decoded length. It
// returns an error if stored does not decode to exactly that length.
func (id ID) Decode(dst, stored []byte) error {
	var out []byte
	var err error
	switch id {
	case S2:
		var n int
		if n, err = s2.DecodedLen(stored); err == nil && n != len(dst) {
			return base.Corrupt(-1, "length of an s2 block", n, len(dst))
		}
		if err == nil {
			out, err = s2.Decode(dst, stored)
		}
	case Zstd:
		d, decoderErr := zstdDecoder()
		if decoderErr != nil {
			return fmt.Errorf("zstd decoder: %w", decoderErr)
		}
		out, err = d.DecodeAll(stored, dst[:0:len(dst)])
	default:
		return base.Corrupt(-1, "codec", uint8(id), fmt.Sprintf("%d or %d", S2, Zstd))
	}
	if err != nil {
		return base.Corrupt(-1, "compressed values", err, "a valid stream")
	}
	if len(out) != len(dst) || len(out) > 0 && &out[0] != &dst[0] {
		return base.Corrupt(-1, "length of decoded values", len(out), len(dst))
	}
	return nil
}
