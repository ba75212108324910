package testkit

import (
	"io"
)

// Patterned returns a reader of n bytes that depend on where they are.
func Patterned(n int64) io.Reader {
	return io.LimitReader(&PatternReader{}, n)
}

// A PatternReader is the endless reader behind Patterned.
type PatternReader struct{ at uint64 }

// Read fills b with the next bytes of the pattern.
func (p *PatternReader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(p.at ^ p.at>>8 ^ p.at>>16)
		p.at++
	}
	return len(b), nil
}
