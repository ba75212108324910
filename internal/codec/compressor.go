package codec

import (
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/stoatdb/stoat/internal/invariant"
)

// After missesMax attempts in a row that saved too little, a Compressor tries
// only every sampleEvery-th input, until one saves enough.
const (
	missesMax   = 16
	sampleEvery = 64
)

// A Compressor compresses one input after the other: the blocks of a table, or
// the values of a value file. One goroutine uses it at a time.
type Compressor struct {
	how      ID
	min, max int
	zstd     *zstd.Encoder
	misses   int // attempts in a row that saved too little
	skipped  int // inputs left out since the last attempt
	buf      []byte
}

// zstdEncoder returns the encoder that all compressors share, because it takes
// megabytes. Many goroutines may use it.
var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
		zstd.WithWindowSize(SizeMax), zstd.WithLowerEncoderMem(true))
})

// NewCompressor returns a Compressor that uses codec how for inputs of min to
// max bytes, and leaves others unchanged.
func NewCompressor(how ID, min, max int) (*Compressor, error) {
	invariant.Check(max <= SizeMax, "codec: the maximum %d exceeds SizeMax %d", max, SizeMax)
	c := &Compressor{how: how, min: min, max: max}
	if how > Last {
		return nil, fmt.Errorf("codec: unknown number %d", how)
	}
	if how == Zstd {
		var err error
		if c.zstd, err = zstdEncoder(); err != nil {
			return nil, fmt.Errorf("zstd encoder: %w", err)
		}
	}
	return c, nil
}

// Compress returns the stored form of raw. The bytes are valid until the next
// call.
func (c *Compressor) Compress(raw []byte) (ID, []byte) {
	if c.how == None || len(raw) < c.min || len(raw) > c.max || c.resting() {
		return None, raw
	}
	if c.how == Zstd {
		c.buf = c.zstd.EncodeAll(raw, c.buf[:0])
	} else {
		if n := s2.MaxEncodedLen(len(raw)); cap(c.buf) < n {
			c.buf = make([]byte, n)
		}
		c.buf = s2.Encode(c.buf[:cap(c.buf)], raw)
	}
	if len(c.buf) > len(raw)-len(raw)/8 {
		c.misses++
		return None, raw
	}
	c.misses = 0
	return c.how, c.buf
}

// resting reports whether Compress should skip this input.
func (c *Compressor) resting() bool {
	if c.misses < missesMax {
		return false
	}
	if c.skipped++; c.skipped < sampleEvery {
		return true
	}
	c.skipped = 0
	return false
}
