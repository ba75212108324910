package memfs

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat/vfs"
)

// crashLocked returns the disk that a crash with this plan leaves.
func (m *FS) crashLocked(plan crashPlan, rng *rand.Rand) *FS {
	c := &FS{}
	c.mu.capacity, c.mu.onlyGrows = m.mu.capacity, m.mu.onlyGrows
	c.mu.lastIno = m.mu.lastIno
	c.mu.freed = m.mu.freed
	c.mu.inodes = make(map[uint64]*inode, len(m.mu.inodes))
	inodes := m.sortedLocked()
	for _, ino := range inodes {
		after := &inode{id: ino.id, cat: ino.cat}
		if ino.dir != nil {
			after.dir = ino.dir.crash(plan.entry)
		} else {
			after.live = m.crashFile(ino, plan.file(ino), inodes, rng)
			after.durable, after.base = after.live.fork(), newContent()
		}
		c.mu.inodes[ino.id] = after
	}
	c.settle()
	return c
}

// settle deletes inodes without a name, and computes link counts and used space.
func (m *FS) settle() {
	m.mu.inodes[rootIno].links = 1
	m.countLinks(m.mu.inodes[rootIno])
	for _, ino := range m.sortedLocked() {
		if ino.links == 0 {
			m.mu.freed.add(&ino.live)
			delete(m.mu.inodes, ino.id)
			continue
		}
		m.mu.used += ino.live.pages * pageSize
	}
}

func (m *FS) countLinks(dir *inode) {
	for _, name := range slices.Sorted(maps.Keys(dir.dir.live)) {
		ino := m.mu.inodes[dir.dir.live[name]]
		if ino.dir != nil && ino.links > 0 {
			// The crash kept one half of a move of a directory. File system checkers
			// also leave one of the names.
			delete(dir.dir.live, name)
			delete(dir.dir.durable, name)
			continue
		}
		ino.links++
		if ino.dir != nil {
			m.countLinks(ino)
		}
	}
}

// crash returns the directory with the unsynced changes that fate keeps.
func (d *directory) crash(fate func(op dirOp) entryFate) *directory {
	entries := maps.Clone(d.durable)
	for _, op := range d.journal {
		switch fate(op) {
		case entryKept:
			op.apply(entries)
		case entryDoubled:
			op.apply(entries)
			entries[op.name] = op.ino
		}
	}
	return &directory{live: entries, durable: maps.Clone(entries)}
}

// crashFile returns what fate leaves of a file.
//
// It processes the journal with two contents. cur is what readers saw after each
// operation. disk is what the device holds. It starts as the durable image. After each
// operation, it copies from cur the sectors of the operation that fate keeps, and the
// length if fate keeps it.
func (m *FS) crashFile(ino *inode, fate fileFate, inodes []*inode, rng *rand.Rand) content {
	switch {
	case len(ino.journal) == 0 || fate.none:
		return ino.durable.fork()
	case fate.all && !ino.lostData:
		return ino.live.fork()
	}
	cur, disk := ino.startOfJournal(), ino.durable.fork()
	kept := map[int64]bool{}
	for i, op := range ino.journal {
		op.apply(&cur)
		if op.kind == vfs.OpWrite {
			takeSectors(&disk, &cur, i, op, fate, kept)
		}
		if fate.size(i) {
			takeSize(&disk, &cur, op)
		}
	}
	if fate.shorten && disk.size > ino.durable.size {
		least := ino.durable.size / sectorSize
		most := disk.size / sectorSize
		size := (least + rng.Int64N(most-least+1)) * sectorSize
		disk.size = min(disk.size, max(size, ino.durable.size))
	}
	if fate.fill != fillZeros {
		m.fillNewBlocks(ino, &disk, fate.fill, kept, inodes, rng)
	}
	disk.cut(disk.size)
	return disk
}

// startOfJournal returns what readers saw before the first operation of the journal.
func (ino *inode) startOfJournal() content {
	if ino.lostData {
		return ino.base.fork()
	}
	return ino.durable.fork()
}

// apply applies the operation to c.
func (op fileOp) apply(c *content) {
	switch op.kind {
	case vfs.OpWrite:
		c.writeAt(op.data, op.off)
	case vfs.OpTruncate:
		c.setSize(op.off)
	case vfs.OpPreallocate:
		c.reserve(op.off, op.n)
	}
}

// takeSectors copies the sectors of the i-th operation that fate keeps from cur to disk,
// and records them in kept.
func takeSectors(disk, cur *content, i int, op fileOp, fate fileFate, kept map[int64]bool) {
	first, end := op.sectors()
	switch fate.data(i) {
	case dataKept:
		disk.copyRange(cur, first*sectorSize, (end-first)*sectorSize)
		if fate.fill != fillZeros {
			for s := first; s < end; s++ {
				kept[s] = true
			}
		}
	case dataTorn:
		for s := first; s < end; s++ {
			if fate.sector(i, s) {
				disk.copyRange(cur, s*sectorSize, sectorSize)
				kept[s] = true
			}
		}
	}
}

// takeSize sets the length of disk to that of cur after op.
func takeSize(disk, cur *content, op fileOp) {
	shrinks := cur.size < disk.size
	disk.setSize(cur.size)
	if shrinks {
		// Copy the sector at the new end from cur. Truncating the sector of disk could
		// yield a mixture that the file never had.
		disk.copyRange(cur, cur.size/sectorSize*sectorSize, sectorSize)
	}
	if op.kind == vfs.OpPreallocate {
		disk.reserve(op.off, op.n)
		disk.size = cur.size
	}
}

// fillNewBlocks writes garbage or stale bytes to the sectors without kept data in the
// blocks that the journal allocated.
func (m *FS) fillNewBlocks(ino *inode, disk *content, with fill, kept map[int64]bool, inodes []*inode, rng *rand.Rand) {
	var filled map[int64]bool
	for _, op := range ino.journal {
		if op.kind == vfs.OpTruncate {
			continue
		}
		from := op.off / pageSize * pageSize
		to := min(disk.size, (op.off+op.n+pageSize-1)/pageSize*pageSize)
		for off := from; off < to; off += sectorSize {
			sector := off / sectorSize
			inBlock := ino.durable.isAllocated(int(off/chunkBytes), int(off%chunkBytes/pageSize))
			if inBlock || kept[sector] || filled[sector] {
				continue
			}
			if filled == nil {
				filled = map[int64]bool{}
			}
			filled[sector] = true
			size := disk.size
			disk.writeAt(m.oldSector(with, inodes, rng), off)
			disk.size = size
		}
	}
}

// oldSector returns a sector of random bytes, or for fillStale one from a page of a
// present or removed file.
func (m *FS) oldSector(with fill, inodes []*inode, rng *rand.Rand) []byte {
	if with == fillStale {
		p := m.mu.freed.pick(rng)
		if p == nil || rng.IntN(2) == 0 {
			if other := pickPage(&inodes[rng.IntN(len(inodes))].durable, rng); other != nil {
				p = other
			}
		}
		if p != nil {
			at := rng.IntN(pageSize/sectorSize) * sectorSize
			return p[at : at+sectorSize]
		}
	}
	sector := make([]byte, sectorSize)
	for i := 0; i < sectorSize; i += 8 {
		binary.LittleEndian.PutUint64(sector[i:], rng.Uint64())
	}
	return sector
}

// freedPages is a ring buffer of pages of removed files.
type freedPages struct {
	pages [32]*page
	next  int
}

// add adds a few pages of c. They become shared, so that c does not write to them.
func (f *freedPages) add(c *content) {
	gone := c.fork()
	for i := range 4 {
		at := gone.size / 4 * int64(i)
		if p := gone.peek(int(at/chunkBytes), int(at%chunkBytes/pageSize)); p != nil {
			f.pages[f.next%len(f.pages)] = p
			f.next++
		}
	}
}

func (f *freedPages) pick(rng *rand.Rand) *page {
	return f.pages[rng.IntN(len(f.pages))]
}

// pickPage returns a random page of c, or nil.
func pickPage(c *content, rng *rand.Rand) *page {
	if c.size == 0 {
		return nil
	}
	at := rng.Int64N(c.size)
	return c.peek(int(at/chunkBytes), int(at%chunkBytes/pageSize))
}
