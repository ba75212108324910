package memtable

import "sync"

// A Pool keeps blocks that were freed for the next who asks for as many bytes.
// Memory that comes from the system anew costs a page fault for every page,
// more than writing an entry does; with a pool, the next memtable is made of
// the pages of one that was flushed.
//
// A pool that was put to rest keeps nothing until somebody asks for a block
// again. Its methods may be called from many goroutines.
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

// poolMin is the smallest block worth keeping.
const poolMin = 64 << 10

// NewPool returns a pool of the blocks of mem. It keeps at most keep bytes.
func NewPool(mem Memory, keep int64) *Pool {
	p := &Pool{mem: mem, keep: keep}
	p.mu.blocks = map[int][][]byte{}
	return p
}

// Alloc returns a block of n bytes, a kept one if there is one.
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

// Free keeps the block b or, when there is enough, frees it.
func (p *Pool) Free(b []byte) {
	if !p.put(b) {
		p.mem.Free(b)
	}
}

// put keeps the block b, if there is use for it.
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

// poolable reports whether blocks of n bytes are likely to be asked for again.
func poolable(n int) bool { return n >= poolMin && n&(n-1) == 0 }

// Idle returns how many bytes the pool keeps.
func (p *Pool) Idle() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.bytes
}

// Rest frees what the pool keeps.
func (p *Pool) Rest() {
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

// Close frees what the pool keeps; what is freed later it keeps no more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.mu.closed = true
	p.mu.Unlock()
	p.Rest()
}
