package vfs

import (
	"io"
	"maps"
	"path"
	"sync/atomic"
)

// A directory maps names to inodes, as readers see them and as they are on
// the device for sure.
type directory struct {
	live, durable map[string]uint64
	// liveShared and durableShared say that a clone may have the same map.
	liveShared, durableShared bool
	journal                   []dirOp
}

// A dirOp is a change of a directory that no SyncDir has covered. A rename
// within one directory is one change; one between directories is an OpLink
// in the one and an OpRemove in the other, each made durable by the SyncDir
// of its own directory.
type dirOp struct {
	seq  uint64
	kind OpKind // OpCreate, OpMkdir, OpLink, OpRename or OpRemove
	name string
	// newName is the target of OpRename.
	newName string
	ino     uint64
}

// apply makes the change in a map of entries. Applied to a directory in
// which earlier changes are missing, it sets the names it is about all the
// same.
func (op dirOp) apply(entries map[string]uint64) {
	switch op.kind {
	case OpRemove:
		delete(entries, op.name)
	case OpRename:
		delete(entries, op.name)
		entries[op.newName] = op.ino
	default:
		entries[op.name] = op.ino
	}
}

func newDirectory() *directory {
	return &directory{live: map[string]uint64{}, durable: map[string]uint64{}}
}

// fork returns a copy that shares the maps until one side changes them.
func (d *directory) fork() *directory {
	d.liveShared, d.durableShared = true, true
	e := *d
	e.journal = d.journal[:len(d.journal):len(d.journal)]
	d.journal = e.journal
	return &e
}

func (d *directory) writableLive() map[string]uint64 {
	if d.liveShared {
		d.live = maps.Clone(d.live)
		d.liveShared = false
	}
	return d.live
}

// sync makes the journaled changes durable.
func (d *directory) sync() {
	if len(d.journal) == 0 {
		return
	}
	if d.durableShared {
		d.durable = maps.Clone(d.durable)
		d.durableShared = false
	}
	for _, op := range d.journal {
		op.apply(d.durable)
	}
	d.journal = nil
}

// changeDirLocked makes a change of a directory and journals it.
func (m *Mem) changeDirLocked(parent *inode, op dirOp) {
	op.apply(parent.dir.writableLive())
	if m.keepsNothing {
		return
	}
	m.mu.lastSeq++
	op.seq = m.mu.lastSeq
	parent.dir.journal = append(parent.dir.journal, op)
}

// enterLocked adds a name for ino to a directory.
func (m *Mem) enterLocked(parent *inode, kind OpKind, name string, ino *inode) {
	m.changeDirLocked(parent, dirOp{kind: kind, name: name, ino: ino.id})
	ino.links++
}

// unlinkLocked takes account of a name of ino that is gone.
func (m *Mem) unlinkLocked(ino *inode) {
	ino.links--
	m.dropLocked(ino)
}

// Rename gives a file a new name, in one step.
func (m *Mem) Rename(oldName, newName string) error {
	m.before(Op{Kind: OpRename, Path: oldName, NewPath: newName})
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathErr(OpRename, oldName, m.renameLocked(oldName, newName))
}

func (m *Mem) renameLocked(oldName, newName string) error {
	from, oldElem, err := m.parentLocked(oldName)
	if err != nil {
		return err
	}
	id, ok := from.dir.live[oldElem]
	if !ok {
		return ErrNotExist
	}
	to, newElem, err := m.parentLocked(newName)
	if err != nil {
		return err
	}
	ino := m.mu.inodes[id]
	if m.insideLocked(to, ino) {
		return errInvalid
	}
	replaced, err := m.replaceableLocked(to, newElem, ino)
	if err != nil || replaced == ino {
		// Two names of one file: POSIX does nothing.
		return err
	}
	if from == to {
		m.changeDirLocked(from, dirOp{kind: OpRename, name: oldElem, newName: newElem, ino: id})
	} else {
		m.changeDirLocked(to, dirOp{kind: OpLink, name: newElem, ino: id})
		m.changeDirLocked(from, dirOp{kind: OpRemove, name: oldElem, ino: id})
	}
	if replaced != nil {
		m.unlinkLocked(replaced)
	}
	return nil
}

// insideLocked reports whether dir is ino or lies below it.
func (m *Mem) insideLocked(dir, ino *inode) bool {
	if ino.dir == nil {
		return false
	}
	if dir == ino {
		return true
	}
	for _, id := range ino.dir.live {
		if m.insideLocked(dir, m.mu.inodes[id]) {
			return true
		}
	}
	return false
}

// replaceableLocked returns what a rename of ino to a name would replace, or
// nil, or why it must not.
func (m *Mem) replaceableLocked(parent *inode, name string, ino *inode) (*inode, error) {
	id, ok := parent.dir.live[name]
	if !ok {
		return nil, nil
	}
	old := m.mu.inodes[id]
	switch {
	case old == ino:
		return old, nil
	case old.dir != nil && ino.dir == nil:
		return nil, errIsDir
	case old.dir == nil && ino.dir != nil:
		return nil, errNotDir
	case old.dir != nil && len(old.dir.live) > 0:
		return nil, errNotEmpty
	}
	return old, nil
}

// Link makes newName a second name of oldName.
func (m *Mem) Link(oldName, newName string) error {
	m.before(Op{Kind: OpLink, Path: oldName, NewPath: newName})
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathErr(OpLink, newName, m.linkLocked(oldName, newName))
}

func (m *Mem) linkLocked(oldName, newName string) error {
	ino, err := m.findFileLocked(oldName)
	if err != nil {
		return err
	}
	parent, elem, err := m.parentLocked(newName)
	if err != nil {
		return err
	}
	if _, ok := parent.dir.live[elem]; ok {
		return ErrExist
	}
	m.enterLocked(parent, OpLink, elem, ino)
	return nil
}

// Remove deletes a name of a file, or an empty directory.
func (m *Mem) Remove(name string) error {
	m.before(Op{Kind: OpRemove, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	return pathErr(OpRemove, name, m.removeLocked(name))
}

func (m *Mem) removeLocked(name string) error {
	parent, elem, err := m.parentLocked(name)
	if err != nil {
		return err
	}
	id, ok := parent.dir.live[elem]
	if !ok {
		return ErrNotExist
	}
	ino := m.mu.inodes[id]
	if ino.dir != nil && len(ino.dir.live) > 0 {
		return errNotEmpty
	}
	m.changeDirLocked(parent, dirOp{kind: OpRemove, name: elem, ino: id})
	m.unlinkLocked(ino)
	return nil
}

// MkdirAll makes one level after the other and syncs each into its parent
// before the next, and the deepest level that existed as well.
func (m *Mem) MkdirAll(dir string) error {
	at := "/"
	for _, elem := range elements(dir) {
		parent := at
		at = path.Join(at, elem)
		if info, err := m.Stat(at); err == nil && info.Dir {
			continue
		}
		if err := m.SyncDir(path.Dir(parent)); err != nil {
			return err
		}
		if err := m.mkdir(at); err != nil {
			return err
		}
	}
	return m.SyncDir(path.Dir(at))
}

func (m *Mem) mkdir(name string) error {
	m.before(Op{Kind: OpMkdir, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, elem, err := m.parentLocked(name)
	if err != nil {
		return pathErr(OpMkdir, name, err)
	}
	if id, ok := parent.dir.live[elem]; ok {
		if m.mu.inodes[id].dir == nil {
			return pathErr(OpMkdir, name, errNotDir)
		}
		return nil // another goroutine was faster
	}
	m.mu.lastIno++
	ino := &inode{id: m.mu.lastIno, dir: newDirectory()}
	m.mu.inodes[ino.id] = ino
	m.enterLocked(parent, OpMkdir, elem, ino)
	return nil
}

// SyncDir makes the entries of a directory durable.
func (m *Mem) SyncDir(dir string) error {
	m.before(Op{Kind: OpSyncDir, Path: dir})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findDirLocked(dir)
	if err != nil {
		return pathErr(OpSyncDir, dir, err)
	}
	forgets := len(ino.dir.journal) > 0
	ino.dir.sync()
	if forgets {
		m.sweepLocked()
	}
	return nil
}

// sweepLocked forgets the inodes that no live, durable or journaled entry
// leads to: no crash can bring them back.
func (m *Mem) sweepLocked() {
	reached := map[uint64]bool{rootIno: true}
	m.markLocked(rootIno, reached)
	for _, ino := range m.sortedLocked() {
		if !reached[ino.id] {
			m.mu.freed.add(&ino.live)
			delete(m.mu.inodes, ino.id)
		}
	}
}

// markLocked adds all that the directory id leads to.
func (m *Mem) markLocked(id uint64, reached map[uint64]bool) {
	visit := func(id uint64) {
		if !reached[id] {
			reached[id] = true
			if m.mu.inodes[id].dir != nil {
				m.markLocked(id, reached)
			}
		}
	}
	d := m.mu.inodes[id].dir
	for _, id := range d.live {
		visit(id)
	}
	for _, id := range d.durable {
		visit(id)
	}
	for _, op := range d.journal {
		visit(op.ino)
	}
}

// memLock is a held lock.
type memLock struct {
	mem    *Mem
	ino    *inode // nil: of a directory alone
	dir    *inode // of its directory
	holds  int    // what it adds to the locks of both
	closed atomic.Bool
}

// lockedAlone is the lock of an inode that somebody holds exclusively.
const lockedAlone = -1

// Lock takes the lock of a file, making the file if needed, and of its directory.
// The lock is one of this disk: a clone knows nothing of it.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.before(Op{Kind: OpLock, Category: CatLock, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, dir, err := m.lockableLocked(name, lockedAlone)
	if err != nil {
		return nil, pathErr(OpLock, name, err)
	}
	return m.holdLocked(ino, dir, lockedAlone), nil
}

// LockShared takes the shared lock of a file that exists, and of its directory.
func (m *Mem) LockShared(name string) (io.Closer, error) {
	m.before(Op{Kind: OpLockShared, Category: CatLock, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, dir, err := m.lockableLocked(name, 1)
	if err != nil {
		return nil, pathErr(OpLockShared, name, err)
	}
	return m.holdLocked(ino, dir, 1), nil
}

// LockDir takes the lock of a directory.
func (m *Mem) LockDir(dir string) (io.Closer, error) {
	m.before(Op{Kind: OpLockDir, Category: CatLock, Path: dir})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findDirLocked(dir)
	if err == nil && ino.lock != 0 {
		err = ErrLocked
	}
	if err != nil {
		return nil, pathErr(OpLockDir, dir, err)
	}
	ino.lock = lockedAlone
	return &memLock{mem: m, dir: ino, holds: lockedAlone}, nil
}

// lockableLocked returns a file and its directory, if the locks of both are free
// for one who holds them so. For one who does so alone, the file is made.
func (m *Mem) lockableLocked(name string, holds int) (ino, dir *inode, err error) {
	free := func(lock int) bool { return lock == 0 || lock > 0 && holds > 0 }
	if dir, _, err = m.parentLocked(name); err != nil {
		return nil, nil, err
	}
	if !free(dir.lock) {
		return nil, nil, ErrLocked
	}
	ino, err = m.findFileLocked(name)
	if err == ErrNotExist && holds == lockedAlone {
		ino, err = m.createLocked(name, CatLock)
	}
	if err == nil && !free(ino.lock) {
		err = ErrLocked
	}
	return ino, dir, err
}

// holdLocked takes the locks of an inode and of its directory, which are free for it.
func (m *Mem) holdLocked(ino, dir *inode, holds int) *memLock {
	ino.lock += holds
	dir.lock += holds
	ino.handles++
	return &memLock{mem: m, ino: ino, dir: dir, holds: holds}
}

// Close ends the lock.
func (l *memLock) Close() error {
	if l.closed.Swap(true) {
		return ErrClosed
	}
	l.mem.mu.Lock()
	defer l.mem.mu.Unlock()
	l.dir.lock -= l.holds
	if l.ino != nil {
		l.ino.lock -= l.holds
		l.ino.handles--
		l.mem.dropLocked(l.ino)
	}
	return nil
}
