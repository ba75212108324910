package codec

import (
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/invariant"
)

// An Arena is where decoded values live while somebody borrows them. Its zero
// value is empty. It may be used by many goroutines. Reset is called by one.
//
// It holds one chunk of memory and hands out pieces of it. A chunk that is used
// up belongs to who borrowed from it: the garbage collector takes it when
// nobody has a piece any more. So a walk over any number of values takes no
// more memory than the values that its user holds on to, and who reads a few
// takes none at all, as the last chunk is used again after Reset.
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
// goroutine that should have ended before may still write to a piece: its chunk is
// left to the garbage collector then, so that no other arena gets it.
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
