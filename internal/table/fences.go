package table

import (
	"encoding/binary"

	"github.com/stoatdb/stoat/internal/base"
)

// The fences hold 8 bytes for each block: its first key, without the bytes that
// all keys of the table share. Such a fence is a big-endian number padded with
// zeros, stored little-endian. Fences order like the keys as far as they differ.
// Where fences are equal, the keys themselves decide.

// firstKeys collects the first keys of blocks until the table's common prefix is
// known.
type firstKeys struct {
	keys []byte
	ends []int
}

func (f *firstKeys) add(key []byte) {
	f.keys = append(f.keys, key...)
	f.ends = append(f.ends, len(f.keys))
}

// fences returns the encoded fences. The keys share that many bytes.
func (f *firstKeys) fences(shared int) []byte {
	out := make([]byte, 0, fenceSize*len(f.ends))
	from := 0
	for _, end := range f.ends {
		out = binary.LittleEndian.AppendUint64(out, base.Head(f.keys[from+shared:end]))
		from = end
	}
	return out
}
