package codec

import (
	"sync"

	"github.com/stoatdb/stoat/internal/invariant"
)

// An Arena provides memory for decoded values that a transaction borrows. Its
// zero value is empty. Many goroutines may call Alloc at once, but none while
// another calls Reset.
//
// An Arena holds one chunk and hands out pieces of it. It drops a chunk that is
// used up; the garbage collector frees that chunk when no borrower has a piece
// of it. So a walk over any number of values takes no more memory than the
// values that its caller holds. A transaction that reads little allocates
// nothing, because Reset recycles the last chunk.
type Arena struct {
	// mu guards the fields below, except in Reset, which runs alone.
	mu    sync.Mutex
	chunk *[chunkSize]byte
	used  int
}

const (
	chunkSize = 64 << 10
	// aloneMin is the length in bytes from which a value gets its own memory.
	aloneMin = chunkSize / 4
)

// chunks pools the chunks that no arena holds.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Alloc returns n bytes of arbitrary contents, which the caller owns until
// Reset. From a nil Arena, the caller owns them for good.
func (a *Arena) Alloc(n int) []byte {
	if a == nil || n >= aloneMin {
		return make([]byte, n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.chunk == nil || n > chunkSize-a.used {
		a.chunk, a.used = chunks.Get().(*[chunkSize]byte), 0
	}
	from := a.used
	a.used += n
	return a.chunk[from:a.used:a.used]
}

// Reset ends the borrowing of all memory that Alloc returned.
func (a *Arena) Reset() {
	if a.chunk != nil {
		a.recycle()
	}
}

// recycle returns the chunk to the pool.
func (a *Arena) recycle() {
	invariant.Mangle(a.chunk[:a.used])
	chunks.Put(a.chunk)
	a.chunk, a.used = nil, 0
}
