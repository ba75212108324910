package memfs

import (
	"io"
	"maps"
	"path"
	"sync/atomic"

	"github.com/stoatdb/stoat/vfs"
)

// A directory maps names to inode numbers. live is what readers see. durable is what a
// power cut certainly leaves.
type directory struct {
	live, durable map[string]uint64
	// liveShared and durableShared report whether a clone may use the same map.
	liveShared, durableShared bool
	journal                   []dirOp
}

// A dirOp is a change of a directory that no SyncDir has covered yet. A rename within a
// directory is one change. A rename between directories is an OpLink in one directory
// and an OpRemove in the other. The SyncDir of each directory makes its own change durable.
type dirOp struct {
	seq  uint64
	kind vfs.OpKind // OpCreate, OpMkdir, OpLink, OpRename or OpRemove
	name string
	// newName is the target of OpRename.
	newName string
	ino     uint64
}

// apply applies the change to a map of names. It sets or deletes its names even if
// earlier changes are missing from the map.
func (op dirOp) apply(entries map[string]uint64) {
	switch op.kind {
	case vfs.OpRemove:
		delete(entries, op.name)
	case vfs.OpRename:
		delete(entries, op.name)
		entries[op.newName] = op.ino
	default:
		entries[op.name] = op.ino
	}
}

func newDirectory() *directory {
	return &directory{live: map[string]uint64{}, durable: map[string]uint64{}}
}

// fork returns a copy that shares the maps until either side changes them.
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

// changeDirLocked applies a change to a directory and appends it to the journal.
func (m *FS) changeDirLocked(parent *inode, op dirOp) {
	op.apply(parent.dir.writableLive())
	if m.keepsNothing {
		return
	}
	m.mu.lastSeq++
	op.seq = m.mu.lastSeq
	parent.dir.journal = append(parent.dir.journal, op)
}

// enterLocked adds a name for ino to a directory.
func (m *FS) enterLocked(parent *inode, kind vfs.OpKind, name string, ino *inode) {
	m.changeDirLocked(parent, dirOp{kind: kind, name: name, ino: ino.id})
	ino.links++
}

// unlinkLocked updates ino after the removal of one of its names.
func (m *FS) unlinkLocked(ino *inode) {
	ino.links--
	m.dropLocked(ino)
}

// Rename atomically renames a file or directory.
func (m *FS) Rename(oldName, newName string) error {
	m.before(vfs.Op{Kind: vfs.OpRename, Path: oldName, NewPath: newName})
	m.mu.Lock()
	defer m.mu.Unlock()
	return vfs.WrapError(vfs.OpRename, oldName, m.renameLocked(oldName, newName))
}

func (m *FS) renameLocked(oldName, newName string) error {
	from, oldElem, err := m.parentLocked(oldName)
	if err != nil {
		return err
	}
	id, ok := from.dir.live[oldElem]
	if !ok {
		return vfs.ErrNotExist
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
		m.changeDirLocked(from, dirOp{kind: vfs.OpRename, name: oldElem, newName: newElem, ino: id})
	} else {
		m.changeDirLocked(to, dirOp{kind: vfs.OpLink, name: newElem, ino: id})
		m.changeDirLocked(from, dirOp{kind: vfs.OpRemove, name: oldElem, ino: id})
	}
	if replaced != nil {
		m.unlinkLocked(replaced)
	}
	return nil
}

// insideLocked reports whether dir is ino or lies below it.
func (m *FS) insideLocked(dir, ino *inode) bool {
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

// replaceableLocked returns the inode that a rename of ino to name replaces, or nil if
// there is none. It returns an error if the rename must not replace it.
func (m *FS) replaceableLocked(parent *inode, name string, ino *inode) (*inode, error) {
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
func (m *FS) Link(oldName, newName string) error {
	m.before(vfs.Op{Kind: vfs.OpLink, Path: oldName, NewPath: newName})
	m.mu.Lock()
	defer m.mu.Unlock()
	return vfs.WrapError(vfs.OpLink, newName, m.linkLocked(oldName, newName))
}

func (m *FS) linkLocked(oldName, newName string) error {
	ino, err := m.findFileLocked(oldName)
	if err != nil {
		return err
	}
	parent, elem, err := m.parentLocked(newName)
	if err != nil {
		return err
	}
	if _, ok := parent.dir.live[elem]; ok {
		return vfs.ErrExist
	}
	m.enterLocked(parent, vfs.OpLink, elem, ino)
	return nil
}

// Remove removes a name of a file, or an empty directory.
func (m *FS) Remove(name string) error {
	m.before(vfs.Op{Kind: vfs.OpRemove, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	return vfs.WrapError(vfs.OpRemove, name, m.removeLocked(name))
}

func (m *FS) removeLocked(name string) error {
	parent, elem, err := m.parentLocked(name)
	if err != nil {
		return err
	}
	id, ok := parent.dir.live[elem]
	if !ok {
		return vfs.ErrNotExist
	}
	ino := m.mu.inodes[id]
	if ino.dir != nil && len(ino.dir.live) > 0 {
		return errNotEmpty
	}
	m.changeDirLocked(parent, dirOp{kind: vfs.OpRemove, name: elem, ino: id})
	m.unlinkLocked(ino)
	return nil
}

// MkdirAll creates one level at a time and syncs its parent before the next level. It
// also syncs the parent of the deepest level that existed.
func (m *FS) MkdirAll(dir string) error { return m.MkdirAllSyncing(dir, m.SyncDir) }

// MkdirAllSyncing is MkdirAll with a SyncDir that may fail. It removes a new level whose
// sync fails, as vfs.OS does. Package faultfs calls it.
func (m *FS) MkdirAllSyncing(dir string, sync func(dir string) error) error {
	at, deepest := "/", "/"
	var missing []string
	for _, elem := range elements(dir) {
		at = path.Join(at, elem)
		if info, err := m.Stat(at); err == nil && info.Dir {
			deepest = at
			continue
		}
		missing = append(missing, at)
	}
	if err := sync(path.Dir(deepest)); err != nil {
		return err
	}
	for _, level := range missing {
		made, err := m.mkdir(level)
		if err != nil {
			return err
		}
		if err := sync(path.Dir(level)); err != nil {
			if made {
				_ = m.Remove(level) // fails if another goroutine uses it
			}
			return err
		}
	}
	return nil
}

// mkdir creates one directory. It succeeds if another goroutine created it first; then made
// is false.
func (m *FS) mkdir(name string) (made bool, err error) {
	m.before(vfs.Op{Kind: vfs.OpMkdir, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, elem, err := m.parentLocked(name)
	if err != nil {
		return false, vfs.WrapError(vfs.OpMkdir, name, err)
	}
	if id, ok := parent.dir.live[elem]; ok {
		if m.mu.inodes[id].dir == nil {
			return false, vfs.WrapError(vfs.OpMkdir, name, errNotDir)
		}
		return false, nil
	}
	m.mu.lastIno++
	ino := &inode{id: m.mu.lastIno, dir: newDirectory()}
	m.mu.inodes[ino.id] = ino
	m.enterLocked(parent, vfs.OpMkdir, elem, ino)
	return true, nil
}

// SyncDir makes the names in a directory durable.
func (m *FS) SyncDir(dir string) error {
	m.before(vfs.Op{Kind: vfs.OpSyncDir, Path: dir})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findDirLocked(dir)
	if err != nil {
		return vfs.WrapError(vfs.OpSyncDir, dir, err)
	}
	forgets := len(ino.dir.journal) > 0
	ino.dir.sync()
	if forgets {
		m.sweepLocked()
	}
	return nil
}

// sweepLocked deletes the inodes that no live, durable or journaled name leads to. No
// crash can bring them back.
func (m *FS) sweepLocked() {
	reached := map[uint64]bool{rootIno: true}
	m.markLocked(rootIno, reached)
	for _, ino := range m.sortedLocked() {
		if !reached[ino.id] {
			m.mu.freed.add(&ino.live)
			delete(m.mu.inodes, ino.id)
		}
	}
}

// markLocked adds every inode below the directory id to reached.
func (m *FS) markLocked(id uint64, reached map[uint64]bool) {
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

// A lock is a lock that a caller holds.
type lock struct {
	disk   *FS
	ino    *inode // locked file; nil for LockDir
	dir    *inode // locked directory
	holds  int    // added to the lock fields of both inodes
	closed atomic.Bool
}

// lockedAlone is the value of inode.lock while a caller holds the exclusive lock.
const lockedAlone = -1

// Lock takes the exclusive locks of a file and its directory. It creates the file if
// necessary. A clone of the disk does not have the lock.
func (m *FS) Lock(name string) (io.Closer, error) {
	m.before(vfs.Op{Kind: vfs.OpLock, Category: vfs.CatLock, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, dir, err := m.lockableLocked(name, lockedAlone)
	if err != nil {
		return nil, vfs.WrapError(vfs.OpLock, name, err)
	}
	return m.holdLocked(ino, dir, lockedAlone), nil
}

// LockShared takes the shared locks of an existing file and its directory.
func (m *FS) LockShared(name string) (io.Closer, error) {
	m.before(vfs.Op{Kind: vfs.OpLockShared, Category: vfs.CatLock, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, dir, err := m.lockableLocked(name, 1)
	if err != nil {
		return nil, vfs.WrapError(vfs.OpLockShared, name, err)
	}
	return m.holdLocked(ino, dir, 1), nil
}

// LockDir takes the exclusive lock of a directory.
func (m *FS) LockDir(dir string) (io.Closer, error) {
	m.before(vfs.Op{Kind: vfs.OpLockDir, Category: vfs.CatLock, Path: dir})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findDirLocked(dir)
	if err == nil && ino.lock != 0 {
		err = vfs.ErrLocked
	}
	if err != nil {
		return nil, vfs.WrapError(vfs.OpLockDir, dir, err)
	}
	ino.lock = lockedAlone
	return &lock{disk: m, dir: ino, holds: lockedAlone}, nil
}

// lockableLocked returns a file and its directory if a lock of the kind holds is
// available on both. For an exclusive lock, it creates a missing file.
func (m *FS) lockableLocked(name string, holds int) (ino, dir *inode, err error) {
	free := func(lock int) bool { return lock == 0 || lock > 0 && holds > 0 }
	if dir, _, err = m.parentLocked(name); err != nil {
		return nil, nil, err
	}
	if !free(dir.lock) {
		return nil, nil, vfs.ErrLocked
	}
	ino, err = m.findFileLocked(name)
	if err == vfs.ErrNotExist && holds == lockedAlone {
		ino, err = m.createLocked(name, vfs.CatLock)
	}
	if err == nil && !free(ino.lock) {
		err = vfs.ErrLocked
	}
	return ino, dir, err
}

// holdLocked takes the locks of a file and its directory, which must be available.
func (m *FS) holdLocked(ino, dir *inode, holds int) *lock {
	ino.lock += holds
	dir.lock += holds
	ino.handles++
	return &lock{disk: m, ino: ino, dir: dir, holds: holds}
}

// Close releases the lock.
func (l *lock) Close() error {
	if l.closed.Swap(true) {
		return vfs.ErrClosed
	}
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	l.dir.lock -= l.holds
	if l.ino != nil {
		l.ino.lock -= l.holds
		l.ino.handles--
		l.disk.dropLocked(l.ino)
	}
	return nil
}
