package codec

import (
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/invariant"
)

// An Arena is the memory that decoded values live in while a caller borrows them.
// Its zero value is ready for use. Goroutines may share it.
//
// A full chunk belongs to its borrowers: the Go garbage collector takes it when no
// piece is in use. So a walk over any number of values takes no more memory than
// the values that its caller keeps. A few reads take none: the last chunk is used
// again after Reset.
type Arena struct {
	mu     sync.Mutex
	chunk  *[chunkSize]byte
	used   int
	filled atomic.Int64 // pieces of chunks that were filled, less those handed out
}

const (
	chunkSize = 64 << 10
	// aloneMin is the length from which values get memory of their own.
	aloneMin = chunkSize / 4
)

// chunks are those that no arena has at the moment.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Alloc returns n bytes, whatever they are, that are the caller's until Reset.
// From a nil Arena they are so for good. The caller fills them, and calls Filled
// before it uses them for anything else.
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
	a.filled.Add(-1)
	return a.chunk[from:a.used:a.used]
}

// Filled tells the arena that the caller writes no more to the n bytes that Alloc
// returned.
func (a *Arena) Filled(n int) {
	if a != nil && n < aloneMin {
		a.filled.Add(1)
	}
}

// Reset ends the borrowing of all that Alloc returned. It reports false if a
// goroutine that should have ended may still write to a piece. Its chunk is then
// left to the Go garbage collector, so that no other arena gets it.
func (a *Arena) Reset() bool {
	return a.chunk == nil || a.recycle()
}

func (a *Arena) recycle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	chunk, used := a.chunk, a.used
	a.chunk, a.used = nil, 0
	if chunk == nil || a.filled.Load() != 0 {
		return false
	}
	invariant.Mangle(chunk[:used])
	chunks.Put(chunk)
	return true
}
