package memtable

import "sync"

// A Pool keeps blocks that were freed for the next who asks for as many bytes.
// Memory that comes from the system anew costs a page fault for every page,
// more than writing an entry does; with a pool, the next memtable is made of
// the pages of one that was flushed.
//
// Its methods may be called from many goroutines.
type Pool struct {
	mem  Memory
	keep int64

	mu struct {
		sync.Mutex
		blocks map[int][][]byte
		bytes  int64
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
	if n < poolMin {
		return p.mem.Alloc(n)
	}
	p.mu.Lock()
	blocks := p.mu.blocks[n]
	if len(blocks) == 0 {
		p.mu.Unlock()
		return p.mem.Alloc(n)
	}
	last := len(blocks) - 1
	b := blocks[last]
	blocks[last] = nil
	p.mu.blocks[n] = blocks[:last]
	p.mu.bytes -= int64(n)
	p.mu.Unlock()
	return b, nil
}

// Free keeps the block b or, when there is enough, frees it. Blocks of sizes
// that are unlikely to be asked for again are not kept.
func (p *Pool) Free(b []byte) {
	n := len(b)
	if n >= poolMin && n&(n-1) == 0 {
		p.mu.Lock()
		if p.mu.bytes+int64(n) <= p.keep {
			p.mu.blocks[n] = append(p.mu.blocks[n], b)
			p.mu.bytes += int64(n)
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
	p.mem.Free(b)
}

// Idle returns how many bytes the pool keeps.
func (p *Pool) Idle() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.bytes
}

// Drain frees all kept blocks but keep bytes at most.
func (p *Pool) Drain(keep int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, blocks := range p.mu.blocks {
		for len(blocks) > 0 && p.mu.bytes > keep {
			last := len(blocks) - 1
			p.mem.Free(blocks[last])
			blocks[last] = nil
			blocks = blocks[:last]
			p.mu.bytes -= int64(n)
		}
		p.mu.blocks[n] = blocks
	}
}
