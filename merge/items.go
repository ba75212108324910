package merge

import (
	"encoding/binary"
	"fmt"
	"iter"
)

// appendItem appends an item behind its length, an unsigned varint.
func appendItem(dst, item []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(item))), item...)
}

// cutItem returns the first item of b and what follows it.
func cutItem(b []byte) (item, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	switch {
	case size <= 0 || size > 1 && b[size-1] == 0:
		return nil, nil, fmt.Errorf("%w: a bad length", ErrEncoding)
	case n > uint64(len(b)-size):
		return nil, nil, fmt.Errorf("%w: an item of %d bytes, of which there are %d", ErrEncoding, n, len(b)-size)
	}
	return b[size : size+int(n)], b[size+int(n):], nil
}

// Items loops over the items of a value of Set or of a list. They are slices of value. An
// error ends the loop.
func Items(value []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for rest := value; len(rest) > 0; {
			item, after, err := cutItem(rest)
			if !yield(item, err) || err != nil {
				return
			}
			rest = after
		}
	}
}
