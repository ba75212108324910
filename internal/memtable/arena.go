package memtable

import (
	"errors"
	"math"
	"sync/atomic"
	"unsafe"

	"github.com/stoatdb/stoat/internal/invariant"
)

// ErrFull says that a table has no references left for entries. That takes about 8 GiB
// of values a little longer than 512 KiB, each in a chunk of its own. Shorter ones take more.
var ErrFull = errors.New("memtable: full")

// ErrTooLarge says that an entry exceeds the address space.
var ErrTooLarge = errors.New("memtable: entry too large")

const (
	// chunkBits is how many bits of a Ref count 8-byte units in a chunk.
	chunkBits = 18
	unitMask  = 1<<chunkBits - 1
	unitShift = 3
	// chunkMax is the size in bytes of the largest chunk with more than one
	// entry. An entry with its own chunk starts at its beginning, so that chunk
	// may have any size.
	chunkMax = 1 << (chunkBits + unitShift)
	// chunkCount bounds the chunks of a table. No chunk has number 0, so no
	// entry has Ref 0.
	chunkCount = 1 << (32 - chunkBits)
	// An entry that takes more than 1/ownShare of chunkMax, and does not fit
	// the current chunk, gets its own one. Otherwise the rest of the current
	// chunk would be wasted.
	ownShare = 4
	// cacheLine is the size of a cache line in bytes, on most machines.
	cacheLine = 64
	// The arena leaves at most 1/skipShare of an entry's size unused before it.
	skipShare = 4
	// entryMax bounds the bytes of an entry with its padding.
	entryMax = math.MaxInt - 4096
)

// An arena is a list of chunks to which the writer appends entries. Readers find
// the chunks through the directory.
type arena struct {
	mem *counted
	// dir points to an array of the addresses of the chunks. The writer stores
	// the address of a chunk before it publishes a Ref into it, so a reader of a
	// Ref finds its chunk.
	dir    atomic.Pointer[unsafe.Pointer]
	dirLen int
	// dirFirst is the first directory. Larger ones are on the Go heap and live
	// as long as a reader uses them.
	dirFirst [8]unsafe.Pointer

	chunks []chunk // chunks[0] is chunk number 1
	spare  []chunk // kept by Reset for the next use, smallest last
	first  int     // size of the first chunk in bytes
	next   int     // size of the next chunk to allocate, in bytes

	tip chunkTip
}

type chunk struct {
	bytes []byte
	own   bool // holds a single large entry
}

// chunkTip is where the next entry goes.
type chunkTip struct {
	number int // number of the chunk, 0 if there is none
	used   int
	size   int
}

func (a *arena) init(mem *counted, first int) {
	a.mem = mem
	a.first = first
	a.next = first
	a.dirLen = len(a.dirFirst)
	a.dir.Store(&a.dirFirst[0])
}

// at returns the entry with the reference r.
func (a *arena) at(r Ref) entry {
	slot := unsafe.Add(unsafe.Pointer(a.dir.Load()), uintptr(r>>chunkBits)*unsafe.Sizeof(uintptr(0)))
	return entry{unsafe.Add(*(*unsafe.Pointer)(slot), uintptr(r&unitMask)<<unitShift)}
}

// alloc allocates memory for the entry that has the word w.
func (a *arena) alloc(w uint64) (Ref, entry, error) {
	size := wordSize(w)
	if size > entryMax {
		return 0, entry{}, ErrTooLarge
	}
	n := (int(size) + 7) &^ 7
	if skip := a.tip.skip(wordKeyOffset(w) + wordKeyLen(w)); skip <= n/skipShare {
		a.tip.used = min(a.tip.used+skip, a.tip.size)
	}
	if n > a.tip.size-a.tip.used {
		if err := a.extend(n); err != nil {
			return 0, entry{}, err
		}
		if last := len(a.chunks); a.chunks[last-1].own {
			r := Ref(last) << chunkBits
			return r, a.at(r), nil
		}
	}
	r := Ref(a.tip.number)<<chunkBits | Ref(a.tip.used>>unitShift)
	a.tip.used += n
	return r, a.at(r), nil
}

// skip returns how many bytes to leave unused so that the next entry's first head bytes
// share a cache line. These bytes are its word and key. Then an iterator waits for one line
// per entry, not for two. It is 0 if they are longer than a line.
func (t *chunkTip) skip(head int) int {
	at := t.used % cacheLine
	if at+head <= cacheLine || head > cacheLine {
		return 0
	}
	return cacheLine - at
}

// extend adds a chunk with room for n bytes. The chunk becomes the new tip, or
// holds one large entry.
func (a *arena) extend(n int) error {
	if len(a.chunks)+1 >= chunkCount {
		return ErrFull
	}
	if n > chunkMax/ownShare {
		b, err := a.mem.alloc(n)
		if err != nil {
			return err
		}
		a.add(chunk{b, true})
		return nil
	}
	c, err := a.nextChunk(n)
	if err != nil {
		return err
	}
	a.add(c)
	a.tip = chunkTip{number: len(a.chunks), size: len(c.bytes)}
	return nil
}

// nextChunk returns a chunk of n bytes or more, a spare one if possible. Sizes
// double up to chunkMax.
func (a *arena) nextChunk(n int) (chunk, error) {
	if last := len(a.spare) - 1; last >= 0 && len(a.spare[last].bytes) >= n {
		c := a.spare[last]
		a.spare[last] = chunk{}
		a.spare = a.spare[:last]
		return c, nil
	}
	size := a.next
	for size < n {
		size *= 2
	}
	b, err := a.mem.alloc(size)
	if err != nil {
		return chunk{}, err
	}
	a.next = min(2*size, chunkMax)
	return chunk{bytes: b}, nil
}

// add makes c reachable for readers.
func (a *arena) add(c chunk) {
	a.chunks = append(a.chunks, c)
	if len(a.chunks) == a.dirLen {
		a.dirLen *= 2
		dir := make([]unsafe.Pointer, a.dirLen)
		for i := range a.chunks {
			dir[i+1] = unsafe.Pointer(unsafe.SliceData(a.chunks[i].bytes))
		}
		a.dir.Store(&dir[0])
		return
	}
	slot := unsafe.Add(unsafe.Pointer(a.dir.Load()), uintptr(len(a.chunks))*unsafe.Sizeof(uintptr(0)))
	*(*unsafe.Pointer)(slot) = unsafe.Pointer(unsafe.SliceData(c.bytes))
}

// arenaMark is a state of the arena that rollback returns to.
type arenaMark struct {
	chunks int
	tip    chunkTip
}

func (a *arena) mark() arenaMark { return arenaMark{len(a.chunks), a.tip} }

// unlink takes the chunks after the first kept ones out of the directories. The Go garbage
// collector must not find there the address of memory that the system has back. No reader
// may hold an entry in these chunks.
func (a *arena) unlink(kept int) {
	end := len(a.chunks) + 1
	clear(unsafe.Slice(a.dir.Load(), a.dirLen)[kept+1 : end])
	if first := a.dirFirst[:]; kept+1 < len(first) { // the directory may be a larger one by now
		clear(first[kept+1 : min(end, len(first))])
	}
}

// rollback removes the entries allocated since m. None of them may be published.
func (a *arena) rollback(m arenaMark) {
	a.unlink(m.chunks)
	for _, c := range a.chunks[m.chunks:] {
		a.mem.free(c.bytes)
	}
	clear(a.chunks[m.chunks:])
	a.chunks = a.chunks[:m.chunks]
	a.tip = m.tip
}

// reset removes all entries. It keeps the smallest chunks, at most keep bytes in
// total, for the next use and frees the others.
func (a *arena) reset(keep int) {
	for _, c := range a.spare {
		keep -= len(c.bytes)
	}
	kept := 0
	for ; kept < len(a.chunks); kept++ {
		c := a.chunks[kept]
		if c.own || len(c.bytes) > keep {
			break
		}
		keep -= len(c.bytes)
		if invariant.Enabled {
			invariant.Mangle(c.bytes)
		}
	}
	// The first chunk stays in place, the others become spare.
	if stays := min(kept, 1); stays < len(a.chunks) {
		a.unlink(stays)
	}
	for i := len(a.chunks) - 1; i > 0 || i == 0 && kept == 0; i-- {
		if i >= kept {
			a.mem.free(a.chunks[i].bytes)
		} else {
			a.spare = append(a.spare, a.chunks[i])
		}
		a.chunks[i] = chunk{}
		a.chunks = a.chunks[:i]
	}
	a.tip = chunkTip{}
	if kept > 0 {
		a.tip = chunkTip{number: 1, size: len(a.chunks[0].bytes)}
	}
	a.next = a.first
	for _, c := range a.spare {
		a.next = max(a.next, min(2*len(c.bytes), chunkMax))
	}
}

// release frees all memory.
func (a *arena) release() {
	a.reset(0)
	for _, c := range a.spare {
		a.mem.free(c.bytes)
	}
	a.spare = nil
	a.next = a.first
}
