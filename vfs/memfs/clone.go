package memfs

// Clone returns a copy of the disk as it is at this moment: contents, names,
// durable image and journals. Open files, locks and the hook stay behind, as
// with a machine that is taken over by another. It may be called at any time,
// also from a hook and while operations run. It costs a few hundred
// nanoseconds per file, and later, on either side, a copy of each page
// written.
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
			continue // held by open files only, which stay behind
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
	// Cut to its length, the journal is copied by who appends first.
	ino.journal = ino.journal[:len(ino.journal):len(ino.journal)]
	c.journal = ino.journal
	return c
}
