package memtable

import "sync"

// A Pool keeps freed blocks for the next Alloc of the same size. New memory from
// the system costs a page fault for every page, more than writing an entry does.
// With a pool, the next memtable uses the pages of one that was flushed.
//
// A resting pool keeps nothing, until the next Alloc. Many goroutines may use a
// Pool at once.
type Pool struct {
	mem  Memory
	keep int64

	mu struct {
		sync.Mutex
		blocks  map[int][][]byte
		bytes   int64
		resting bool
		closed  bool
	}
}

// poolMin is the size in bytes of the smallest block that a pool keeps.
const poolMin = 64 << 10

// NewPool returns a pool of the blocks of mem. It keeps at most keep bytes.
func NewPool(mem Memory, keep int64) *Pool {
	p := &Pool{mem: mem, keep: keep}
	p.mu.blocks = map[int][][]byte{}
	return p
}

// Alloc returns a block of n bytes, a kept one if possible.
func (p *Pool) Alloc(n int) ([]byte, error) {
	if b := p.take(n); b != nil {
		return b, nil
	}
	return p.mem.Alloc(n)
}

// take returns a kept block of n bytes, or nil.
func (p *Pool) take(n int) []byte {
	if !poolable(n) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.resting = false
	blocks := p.mu.blocks[n]
	if len(blocks) == 0 {
		return nil
	}
	last := len(blocks) - 1
	b := blocks[last]
	blocks[last] = nil
	p.mu.blocks[n] = blocks[:last]
	p.mu.bytes -= int64(n)
	return b
}

// Free keeps the block b, or frees it if the pool keeps enough.
func (p *Pool) Free(b []byte) {
	if !p.put(b) {
		p.mem.Free(b)
	}
}

// put keeps the block b, and reports false if it does not.
func (p *Pool) put(b []byte) bool {
	if !poolable(len(b)) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.resting || p.mu.closed || p.mu.bytes+int64(len(b)) > p.keep {
		return false
	}
	p.mu.blocks[len(b)] = append(p.mu.blocks[len(b)], b)
	p.mu.bytes += int64(len(b))
	return true
}

// poolable reports whether later calls of Alloc are likely to ask for n bytes.
func poolable(n int) bool { return n >= poolMin && n&(n-1) == 0 }

// Idle returns how many bytes the pool keeps.
func (p *Pool) Idle() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.bytes
}

// Trim frees all kept blocks. The pool keeps none until the next Alloc.
func (p *Pool) Trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.resting = true
	for _, blocks := range p.mu.blocks {
		for _, b := range blocks {
			p.mem.Free(b)
		}
	}
	clear(p.mu.blocks)
	p.mu.bytes = 0
}

// Close frees all kept blocks. The pool keeps none that is freed later.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.Trim()
}
