package memfs

import (
	"math"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/vfs"
)

// Mem is a disk in memory that can crash. It is an FS, and it remembers of
// every file and directory what a power cut would leave for sure (the durable
// image) and, in order, what was done since (the journal). Crash makes from
// these a disk that a power cut could legally leave; Clone copies the disk as
// it is, at a cost that does not depend on the amount of data.
//
// Paths use the slash on every system. A relative path starts at the root.
type FS struct {
	// keepsNothing disks have no journals and no durable image.
	keepsNothing bool

	hook atomic.Pointer[func(vfs.Op)]

	mu struct {
		sync.RWMutex
		// inodes has every inode that a live, durable or journaled entry
		// leads to. Numbers are never used again.
		inodes  map[uint64]*inode
		lastIno uint64
		// lastSeq numbers the operations of all journals in one order.
		lastSeq uint64
		// freed is a few pages of files that are gone for good, of which a
		// crash can leave the contents in blocks that were used again.
		freed freedPages
		// capacity and used are in bytes.
		capacity, used int64
		// onlyGrows says that Preallocate reserves nothing.
		onlyGrows bool
	}
}

const (
	rootIno = 1
	// memCapacity is the size of a disk that nobody set one for.
	defaultCapacity = 1 << 50
)

// NewMem returns an empty disk that can crash.
func New() *FS {
	m := &FS{}
	m.mu.inodes = map[uint64]*inode{rootIno: {id: rootIno, links: 1, dir: newDirectory()}}
	m.mu.lastIno = rootIno
	m.mu.capacity = defaultCapacity
	return m
}

// NewVolatile returns an empty disk that keeps no account of what a crash
// would leave, for databases that live in memory only. Its Crash is Clone.
func NewVolatile() *FS {
	m := New()
	m.keepsNothing = true
	return m
}

// An inode is a file or, when dir is set, a directory.
type inode struct {
	id  uint64
	cat vfs.Category
	dir *directory

	// links is the number of live names, handles that of open files and
	// mappings. Without both the space is free.
	links, handles int
	lock           int // how many share the lock, or lockedAlone

	// live is what readers see; durable what is on the device for sure.
	live, durable content
	// base is what readers saw when the journal was empty last. It is the
	// durable image, unless a sync failed and lost data.
	base    content
	journal []fileOp
	// lostData says that base is not the durable image.
	lostData bool
	// failedSyncs counts the syncs that failed. Each handle that was open
	// reports each once.
	failedSyncs uint64

	// mapped is the bytes of the last mapping, to share with the next one.
	mapped []byte
}

// A fileOp is a change of a file that no sync has covered.
type fileOp struct {
	seq    uint64
	kind   vfs.OpKind // OpWrite, OpTruncate or OpPreallocate
	off, n int64      // Truncate: the size in off
	data   []byte     // of OpWrite
}

func newFileInode(id uint64, cat vfs.Category) *inode {
	return &inode{id: id, cat: cat, live: newContent(), durable: newContent(), base: newContent()}
}

// Join joins path elements with slashes.
func (m *FS) Abs(name string) (string, error) { return name, nil }

func (m *FS) Join(elem ...string) string { return path.Join(elem...) }

// Base returns the last element of a path.
func (m *FS) Base(name string) string { return path.Base(name) }

// Dir returns all but the last element of a path.
func (m *FS) Dir(name string) string { return path.Dir(name) }

// SetHook makes f run before each operation that changes the disk or syncs
// it, in the goroutine that calls and outside all locks, so that f may Clone
// or Crash the disk at that boundary. nil ends it. Clones have no hook.
func (m *FS) SetHook(f func(vfs.Op)) {
	if f == nil {
		m.hook.Store(nil)
		return
	}
	m.hook.Store(&f)
}

func (m *FS) before(op vfs.Op) {
	if f := m.hook.Load(); f != nil {
		(*f)(op)
	}
}

// SetCapacity sets the size of the disk in bytes. What is stored already
// stays, also beyond it.
func (m *FS) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

// SetReserves says whether Preallocate reserves space, as it does on a new Mem,
// or only grows the file, as where a system cannot reserve.
func (m *FS) SetReserves(reserves bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.onlyGrows = !reserves
}

// UsedBytes returns the space that files take, in whole pages.
func (m *FS) UsedBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.used
}

// Free returns the capacity that is not used.
func (m *FS) Free(dir string) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.findLocked(dir); err != nil {
		return 0, vfs.WrapError(vfs.OpFree, dir, err)
	}
	return uint64(m.freeLocked()), nil
}

func (m *FS) freeLocked() int64 { return max(0, m.mu.capacity-m.mu.used) }

// elements splits a path into names, from the root.
func elements(name string) []string {
	clean := path.Clean("/" + name)
	if clean == "/" {
		return nil
	}
	return strings.Split(clean[1:], "/")
}

// findLocked returns the inode that a path leads to.
func (m *FS) findLocked(name string) (*inode, error) {
	at := m.mu.inodes[rootIno]
	for _, elem := range elements(name) {
		if at.dir == nil {
			return nil, errNotDir
		}
		id, ok := at.dir.live[elem]
		if !ok {
			return nil, vfs.ErrNotExist
		}
		at = m.mu.inodes[id]
	}
	return at, nil
}

// findDirLocked returns the inode of a directory.
func (m *FS) findDirLocked(name string) (*inode, error) {
	ino, err := m.findLocked(name)
	if err == nil && ino.dir == nil {
		err = errNotDir
	}
	return ino, err
}

// findFileLocked returns the regular file that a path leads to.
func (m *FS) findFileLocked(name string) (*inode, error) {
	ino, err := m.findLocked(name)
	if err == nil && ino.dir != nil {
		return nil, errIsDir
	}
	return ino, err
}

// parentLocked returns the directory in which the last element of name lies,
// and that element.
func (m *FS) parentLocked(name string) (*inode, string, error) {
	elems := elements(name)
	if len(elems) == 0 {
		return nil, "", errInvalid
	}
	parent, err := m.findLocked(path.Dir(path.Clean("/" + name)))
	if err != nil {
		return nil, "", err
	}
	if parent.dir == nil {
		return nil, "", errNotDir
	}
	return parent, elems[len(elems)-1], nil
}

// Create makes a new file.
func (m *FS) Create(name string, cat vfs.Category) (vfs.File, error) {
	m.before(vfs.Op{Kind: vfs.OpCreate, Category: cat, Path: name})
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.createLocked(name, cat)
	if err != nil {
		return nil, vfs.WrapError(vfs.OpCreate, name, err)
	}
	return m.openLocked(ino, name, cat, true), nil
}

func (m *FS) createLocked(name string, cat vfs.Category) (*inode, error) {
	parent, elem, err := m.parentLocked(name)
	if err != nil {
		return nil, err
	}
	if _, ok := parent.dir.live[elem]; ok {
		return nil, vfs.ErrExist
	}
	m.mu.lastIno++
	ino := newFileInode(m.mu.lastIno, cat)
	m.mu.inodes[ino.id] = ino
	m.enterLocked(parent, vfs.OpCreate, elem, ino)
	return ino, nil
}

// Open opens a file for reading.
func (m *FS) Open(name string, cat vfs.Category) (vfs.File, error) {
	return m.open(vfs.OpOpen, name, cat, false)
}

// OpenReadWrite opens a file for reading and writing.
func (m *FS) OpenReadWrite(name string, cat vfs.Category) (vfs.File, error) {
	return m.open(vfs.OpOpenReadWrite, name, cat, true)
}

func (m *FS) open(op vfs.OpKind, name string, cat vfs.Category, writes bool) (vfs.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ino, err := m.findFileLocked(name)
	if err != nil {
		return nil, vfs.WrapError(op, name, err)
	}
	return m.openLocked(ino, name, cat, writes), nil
}

func (m *FS) openLocked(ino *inode, name string, cat vfs.Category, writes bool) *file {
	ino.handles++
	return &file{
		mem: m, ino: ino, name: name, cat: cat, writes: writes,
		sawFailedSyncs: ino.failedSyncs,
	}
}

// List returns the names in a directory, sorted.
func (m *FS) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ino, err := m.findLocked(dir)
	if err == nil && ino.dir == nil {
		err = errNotDir
	}
	if err != nil {
		return nil, vfs.WrapError(vfs.OpList, dir, err)
	}
	names := make([]string, 0, len(ino.dir.live))
	for name := range ino.dir.live {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Stat describes a file or directory.
func (m *FS) Stat(name string) (vfs.Info, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ino, err := m.findLocked(name)
	if err != nil {
		return vfs.Info{}, vfs.WrapError(vfs.OpStat, name, err)
	}
	return vfs.Info{
		Size:      ino.live.size,
		Allocated: ino.live.pages * pageSize,
		Dir:       ino.dir != nil,
	}, nil
}

// fitLocked returns how much of a range [off, off+n) of ino there is space
// for, from its start.
func (m *FS) fitLocked(ino *inode, off, n int64) int64 {
	if n > fileSizeMax-off {
		return 0
	}
	free := m.freeLocked() / pageSize
	if free >= n/pageSize+2 || ino.live.missing(off, n) <= free {
		return n
	}
	fit, taken := int64(0), int64(0)
	spans(off, n, func(s span) {
		if !ino.live.isAllocated(s.chunk, s.page) {
			taken++
		}
		if taken <= free {
			fit = s.at + int64(s.to-s.from)
		}
	})
	return fit
}

// changeLocked runs a change of the live contents of ino and keeps count of
// the space.
func (m *FS) changeLocked(ino *inode, change func(c *content)) {
	before := ino.live.pages
	change(&ino.live)
	m.mu.used += (ino.live.pages - before) * pageSize
}

// recordLocked appends an operation to the journal of ino.
func (m *FS) recordLocked(ino *inode, op fileOp) {
	if m.keepsNothing {
		return
	}
	m.mu.lastSeq++
	op.seq = m.mu.lastSeq
	ino.journal = append(ino.journal, op)
}

// dropLocked gives up the space of a file that nobody can reach any more.
// Durable or journaled entries may still lead to the inode.
func (m *FS) dropLocked(ino *inode) {
	if ino.links > 0 || ino.handles > 0 {
		return
	}
	m.mu.used -= ino.live.pages * pageSize
	if m.keepsNothing {
		delete(m.mu.inodes, ino.id)
	}
}

// checkRange refuses ranges that no file can have.
func checkRange(off, n int64) error {
	if off < 0 || n < 0 || off > math.MaxInt64-n {
		return errInvalid
	}
	return nil
}
