package memfs

// Clone returns a copy of the disk: contents, names, durable image and journals. The copy
// has no open files, no locks and no hook. Clone may be called at any time, also from a
// hook and during other operations.
//
// Clone takes a few hundred nanoseconds per file, whatever its size. Afterwards, the
// first write to a page on either disk copies the page.
func (m *FS) Clone() *FS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cloneLocked()
}

func (m *FS) cloneLocked() *FS {
	c := &FS{keepsNothing: m.keepsNothing}
	c.mu.capacity, c.mu.onlyGrows = m.mu.capacity, m.mu.onlyGrows
	c.mu.lastIno = m.mu.lastIno
	c.mu.lastSeq = m.mu.lastSeq
	c.mu.inodes = make(map[uint64]*inode, len(m.mu.inodes))
	c.mu.freed = m.mu.freed
	for id, ino := range m.mu.inodes {
		if m.keepsNothing && ino.links == 0 {
			continue // only open files use it, and the clone has none
		}
		copied := ino.fork()
		c.mu.inodes[id] = copied
		if copied.links > 0 {
			c.mu.used += copied.live.pages * pageSize
		}
	}
	return c
}

// fork returns a copy of ino without its handles and lock.
func (ino *inode) fork() *inode {
	c := &inode{
		id:       ino.id,
		cat:      ino.cat,
		links:    ino.links,
		lostData: ino.lostData,
		mapped:   ino.mapped,
	}
	if ino.dir != nil {
		c.dir = ino.dir.fork()
		return c
	}
	c.live, c.durable, c.base = ino.live.fork(), ino.durable.fork(), ino.base.fork()
	// Without spare capacity, the first append on either side copies the journal.
	ino.journal = ino.journal[:len(ino.journal):len(ino.journal)]
	c.journal = ino.journal
	return c
}
