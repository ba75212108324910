package stoat

import (
	"github.com/stoatdb/stoat/internal/codec"
	"github.com/stoatdb/stoat/internal/manifest"
)

// Compression says how values are compressed on the disk. What does not become
// smaller by an eighth stays as it is, whatever is said here.
type Compression uint8

const (
	// CompressionNone stores values as they are. They are read without a copy.
	CompressionNone Compression = iota + 1
	// CompressionFast takes about a microsecond for each kilobyte, read or
	// written. Text shrinks to a half or less.
	CompressionFast
	// CompressionSmall makes that about a quarter smaller still. It takes four
	// times as long to read values that are kept apart or seldom change, and ten
	// times as long to write them.
	CompressionSmall
)

// ofValues returns the codec of values in value files. Where they were written
// first, there they stay.
func (c Compression) ofValues() codec.ID {
	switch c {
	case CompressionFast:
		return codec.S2
	case CompressionSmall:
		return codec.Zstd
	}
	return codec.None
}

// ofTables returns the codec of values in tables of a level. What lies above
// the last one is soon written again.
func (c Compression) ofTables(level int) codec.ID {
	if c == CompressionSmall && level < manifest.Levels-1 {
		return codec.S2
	}
	return c.ofValues()
}
