// Package scratch lends the buffers that files are written and read through by work
// behind. A file of a large database needs a megabyte for it, and the next one needs
// it again; from the heap, each would be outgrown several times and then be garbage.
package scratch

import (
	"sync"

	"github.com/stoatdb/stoat/internal/invariant"
)

// Size is the length of a full buffer. Shorter ones are taken from the heap, and
// nobody else is lent them.
const Size = 1 << 20

// fullFrom is from how much on a full buffer is lent. What is less is soon outgrown,
// or never.
const fullFrom = Size / 4

var full = sync.Pool{New: func() any { return new([Size]byte) }}

// Grow returns b, or a copy of it that takes its place, with room for n bytes behind
// it. With them it has Size bytes at most. b was empty or came from Grow.
func Grow(b []byte, n int) []byte {
	need := len(b) + n
	invariant.Check(need <= Size, "a buffer of %d bytes is more than there are in one", need)
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

// Release takes back what Grow returned. Nobody may touch it any more.
func Release(b []byte) {
	if cap(b) == Size {
		b = b[:Size]
		invariant.Mangle(b)
		full.Put((*[Size]byte)(b))
	}
}
