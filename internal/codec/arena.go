package codec

import (
	"sync"

	"github.com/stoatdb/stoat/internal/invariant"
)

// An Arena is where decoded values live while somebody borrows them. Its zero
// value is empty. It may be used by many goroutines; Reset by nobody else at
// the same time.
//
// It holds one chunk of memory and hands out pieces of it. A chunk that is used
// up belongs to who borrowed from it: the garbage collector takes it when
// nobody has a piece any more. So a walk over any number of values takes no
// more memory than the values that its user holds on to, and who reads a few
// takes none at all, as the last chunk is used again after Reset.
type Arena struct {
	mu    sync.Mutex
	chunk *[chunkSize]byte
	used  int
}

const (
	chunkSize = 64 << 10
	// aloneMin is the length from which values get memory of their own.
	aloneMin = chunkSize / 4
)

// chunks are those that no arena has at the moment.
var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// Alloc returns n bytes, whatever they are, that are the caller's until Reset.
// From a nil Arena they are so for good.
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

// Reset ends the borrowing of all that Alloc returned.
func (a *Arena) Reset() {
	if a.chunk != nil {
		a.giveBack()
	}
}

func (a *Arena) giveBack() {
	invariant.Mangle(a.chunk[:a.used])
	chunks.Put(a.chunk)
	a.chunk, a.used = nil, 0
}
