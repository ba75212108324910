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

// FS is a simulated disk. It implements vfs.FS.
//
// For every file and directory it keeps what a power cut certainly leaves (the durable
// image) and the later operations in order (the journal). Crash combines the two into a
// disk that a power cut may leave. Clone copies the disk with both.
//
// All methods may be called from several goroutines at the same time.
type FS struct {
	// keepsNothing disks have no journals and no durable image.
	keepsNothing bool

	hook atomic.Pointer[func(vfs.Op)]

	mu struct {
		sync.RWMutex
		// inodes has every inode that a live, durable or journaled name leads to.
		// Inode numbers are never used again.
		inodes  map[uint64]*inode
		lastIno uint64
		// lastSeq is the last sequence number of an operation in any journal.
		lastSeq uint64
		// freed has some pages of removed files. Crash uses them as stale contents of
		// blocks that were allocated again.
		freed freedPages
		// capacity and used are in bytes.
		capacity, used int64
		// onlyGrows reports whether Preallocate reserves no space.
		onlyGrows bool
	}
}

const (
	// rootIno is the inode number of the root directory.
	rootIno = 1
	// defaultCapacity is the size of a new disk in bytes.
	defaultCapacity = 1 << 50
)

// New returns an empty disk.
func New() *FS {
	m := &FS{}
	m.mu.inodes = map[uint64]*inode{rootIno: {id: rootIno, links: 1, dir: newDirectory()}}
	m.mu.lastIno = rootIno
	m.mu.capacity = defaultCapacity
	return m
}

// NewVolatile returns an empty disk that does not record what is durable. Its Crash
// returns a Clone. It needs less memory than New and suits databases in memory.
func NewVolatile() *FS {
	m := New()
	m.keepsNothing = true
	return m
}

// An inode is a file or, if dir is not nil, a directory.
type inode struct {
	id  uint64
	cat vfs.Category
	dir *directory

	// links is the number of live names. handles is the number of open files, locks and
	// mappings. The inode takes no space if both are 0.
	links, handles int
	lock           int // number of shared locks, or lockedAlone

	// live is what readers see. durable is what a power cut certainly leaves.
	live, durable content
	// journal has the operations that no sync has covered, in order.
	journal []fileOp
	// lostData reports whether a failed sync lost data. Readers then saw base when the
	// journal was last empty. Otherwise they saw the durable image and base is unused.
	lostData bool
	base     content
	// failedSyncs is the number of failed syncs. Every handle that was open during a
	// failure reports it once.
	failedSyncs uint64

	// mapped is the bytes of the last mapping, which the next mapping may share.
	mapped []byte
}

// A fileOp is a change of a file that no sync has covered yet.
type fileOp struct {
	seq    uint64
	kind   vfs.OpKind // OpWrite, OpTruncate or OpPreallocate
	off, n int64      // bytes; for OpTruncate, off is the new length
	data   []byte     // of OpWrite
}

func newFileInode(id uint64, cat vfs.Category) *inode {
	return &inode{id: id, cat: cat, live: newContent(), durable: newContent(), base: newContent()}
}

// Abs returns name: a disk has no working directory.
func (m *FS) Abs(name string) (string, error) { return name, nil }

// Join joins path elements with slashes.
func (m *FS) Join(elem ...string) string { return path.Join(elem...) }

// Base returns the last element of a path.
func (m *FS) Base(name string) string { return path.Base(name) }

// Dir returns all but the last element of a path.
func (m *FS) Dir(name string) string { return path.Dir(name) }

// SetHook makes the disk call f before each lock, and before each operation for which
// vfs.OpKind.Mutates is true. f runs in the goroutine of the operation and outside all
// locks, so that it may call Clone or Crash. A nil f removes the hook. Clones have no hook.
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

// SetCapacity sets the size of the disk in bytes. Files stay on the disk even if they
// take more space than that.
func (m *FS) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

// SetReserves sets whether Preallocate reserves space, as on a new disk, or only grows
// the file, as on a system that cannot reserve space.
func (m *FS) SetReserves(reserves bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.onlyGrows = !reserves
}

// UsedBytes returns the space that files take, in bytes. Each file takes whole pages.
func (m *FS) UsedBytes() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.used
}

// Free returns the unused capacity in bytes.
func (m *FS) Free(dir string) (uint64, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.findLocked(dir); err != nil {
		return 0, vfs.WrapError(vfs.OpFree, dir, err)
	}
	return uint64(m.freeLocked()), nil
}

func (m *FS) freeLocked() int64 { return max(0, m.mu.capacity-m.mu.used) }

// elements splits a path into names, starting at the root.
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

// parentLocked returns the directory that contains name, and the last element of name.
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

// Create creates a file.
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
		disk: m, ino: ino, name: name, cat: cat, writes: writes,
		sawFailedSyncs: ino.failedSyncs,
	}
}

// List returns the names in a directory, sorted.
func (m *FS) List(dir string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	ino, err := m.findDirLocked(dir)
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

// fitLocked returns how many bytes of [off, off+n) the disk has space for, counted from
// the start of the range.
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

// changeLocked changes the live contents of ino and updates the used space.
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

// dropLocked frees the space of a file without names and handles. The inode stays if
// durable or journaled names may lead to it.
func (m *FS) dropLocked(ino *inode) {
	if ino.links > 0 || ino.handles > 0 {
		return
	}
	m.mu.used -= ino.live.pages * pageSize
	if m.keepsNothing {
		delete(m.mu.inodes, ino.id)
	}
}

// checkRange returns an error for a range that no file can have.
func checkRange(off, n int64) error {
	if off < 0 || n < 0 || off > math.MaxInt64-n {
		return errInvalid
	}
	return nil
}
