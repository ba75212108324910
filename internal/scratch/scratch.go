// Package scratch lends the buffers through which background jobs write and read
// files. A file of a large database needs half a megabyte of buffer, and so does the
// next one. On the heap, each buffer would be outgrown several times and then be
// garbage.
package scratch

import (
	"sync"

	"github.com/stoatdb/stoat/internal/invariant"
)

// Size is the length in bytes of a full buffer. The pool keeps only full
// buffers; shorter ones come from the heap. Writes of a megabyte are not faster, and the
// Go collector doubles what large commits hold at once.
const Size = 512 << 10

// fullFrom is the length in bytes from which Grow returns a full buffer. A
// shorter buffer is either outgrown soon or never.
const fullFrom = Size / 8

var full = sync.Pool{New: func() any { return new([Size]byte) }}

// Grow returns b, or a copy that replaces it, with room for n more bytes.
// len(b)+n is at most Size. b must be empty or come from Grow.
func Grow(b []byte, n int) []byte {
	need := len(b) + n
	invariant.Check(need <= Size, "a buffer of %d bytes exceeds Size", need)
	if need <= cap(b) {
		return b
	}
	var bigger []byte
	if need >= fullFrom {
		bigger = full.Get().(*[Size]byte)[:0]
	} else {
		bigger = make([]byte, 0, min(max(2*cap(b), need), fullFrom))
	}
	return append(bigger, b...)
}

// Release takes back a buffer from Grow. The caller must not use it afterwards.
func Release(b []byte) {
	if cap(b) == Size {
		b = b[:Size]
		invariant.Mangle(b)
		full.Put((*[Size]byte)(b))
	}
}
