package table

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/stoatdb/stoat/internal/base"
)

// Compression says how a writer tries to compress the values of each block.
// It keeps the compressed form only where that saves an eighth or more, so a
// table may mix.
type Compression uint8

// The ways to compress.
const (
	// None stores values as they are, to be read without a copy.
	None Compression = iota
	// S2 is fast both ways.
	S2
	// Zstd is smaller and several times slower; for data that is seldom read.
	Zstd
)

// A codec says how the value part of one block is stored. The numbers are
// part of the format.
type codec uint8

const (
	codecNone codec = iota
	codecS2
	codecZstd
	codecMax = codecZstd
)

// compressedRawMax bounds the values of a compressed block, so that nobody
// can make a reader allocate more than this with a few bytes. Longer value
// parts are stored as they are.
const compressedRawMax = 1 << 20

// The compressor stops trying after missesMax blocks in a row that did not
// get smaller, and from then on tries one block in sampleEvery.
const (
	missesMax   = 16
	sampleEvery = 64
)

// A compressor compresses the value parts of one table.
type compressor struct {
	how     Compression
	misses  int
	skipped int
	zstd    *zstd.Encoder
	buf     []byte
}

func newCompressor(how Compression) (*compressor, error) {
	c := &compressor{how: how}
	if how == Zstd {
		var err error
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false), zstd.WithWindowSize(compressedRawMax))
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// compress returns the form in which raw is to be stored. The bytes are valid
// until the next call.
func (c *compressor) compress(raw []byte) (codec, []byte) {
	if c.how == None || len(raw) < 64 || len(raw) > compressedRawMax {
		return codecNone, raw
	}
	if c.misses >= missesMax {
		if c.skipped++; c.skipped < sampleEvery {
			return codecNone, raw
		}
		c.skipped = 0
	}
	used := codecS2
	if c.how == Zstd {
		used = codecZstd
		c.buf = c.zstd.EncodeAll(raw, c.buf[:0])
	} else {
		if n := s2.MaxEncodedLen(len(raw)); cap(c.buf) < n {
			c.buf = make([]byte, n)
		}
		c.buf = s2.Encode(c.buf[:cap(c.buf)], raw)
	}
	if len(c.buf) > len(raw)-len(raw)/8 {
		c.misses++
		return codecNone, raw
	}
	c.misses = 0
	return used, c.buf
}

// zstdDecoder is shared: it may be used by many goroutines, starts none, and
// is made when the first block needs it.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderMaxMemory(2*compressedRawMax), zstd.WithDecoderMaxWindow(2*compressedRawMax))
})

// decompress fills dst, whose length is that of the raw values, from stored.
func (c codec) decompress(dst, stored []byte) error {
	var out []byte
	var err error
	switch c {
	case codecS2:
		var n int
		if n, err = s2.DecodedLen(stored); err == nil && n != len(dst) {
			return base.Corrupt(-1, "length of s2 values", n, len(dst))
		}
		if err == nil {
			out, err = s2.Decode(dst, stored)
		}
	case codecZstd:
		d, decoderErr := zstdDecoder()
		if decoderErr != nil {
			return fmt.Errorf("zstd decoder: %w", decoderErr)
		}
		out, err = d.DecodeAll(stored, dst[:0:len(dst)])
	}
	if err != nil {
		return base.Corrupt(-1, "compressed values", err, "a valid stream")
	}
	if len(out) != len(dst) || len(out) > 0 && &out[0] != &dst[0] {
		return base.Corrupt(-1, "length of decompressed values", len(out), len(dst))
	}
	return nil
}
