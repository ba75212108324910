package values

import (
	"github.com/klauspost/compress/s2"

	"github.com/stoatdb/stoat/internal/base"
)

const (
	// compressMin is the shortest value that is worth an attempt.
	compressMin = 256
	// compressedRawMax bounds a compressed value, so that nobody can make a
	// reader allocate more than this with a few bytes.
	compressedRawMax = chunkSize

	// The compressor stops trying after missesMax values in a row that did not
	// get smaller, and from then on tries one value in sampleEvery.
	missesMax   = 16
	sampleEvery = 64
)

// A compressor compresses the values of one file, one by one.
type compressor struct {
	misses  int
	skipped int
	buf     []byte
}

// compress returns the compressed form of raw, or false where that does not
// save an eighth. The bytes are valid until the next call.
func (c *compressor) compress(raw []byte) ([]byte, bool) {
	if len(raw) < compressMin || len(raw) > compressedRawMax {
		return nil, false
	}
	if c.misses >= missesMax {
		if c.skipped++; c.skipped < sampleEvery {
			return nil, false
		}
		c.skipped = 0
	}
	if n := s2.MaxEncodedLen(len(raw)); cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	out := s2.Encode(c.buf[:cap(c.buf)], raw)
	if len(out) > len(raw)-len(raw)/8 {
		c.misses++
		return nil, false
	}
	c.misses = 0
	return out, true
}

// decompress returns the value of rawLen bytes that stored, at offset off,
// holds. rawLen has been held against compressedRawMax.
func decompress(stored []byte, rawLen uint32, off int64) ([]byte, error) {
	if n, err := s2.DecodedLen(stored); err != nil || n != int(rawLen) {
		return nil, base.Corrupt(off, "length of a compressed value", n, rawLen)
	}
	raw, err := s2.Decode(make([]byte, rawLen), stored)
	if err != nil {
		return nil, base.Corrupt(off, "compressed value", err, "a valid stream")
	}
	return raw, nil
}
