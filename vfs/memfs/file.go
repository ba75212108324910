package memfs

import (
	"io"
	"math"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/invariant"
	"github.com/stoatdb/stoat/vfs"
)

// file is an open file of an FS.
type file struct {
	disk   *FS
	ino    *inode
	name   string
	cat    vfs.Category
	writes bool
	closed atomic.Bool
	// sawFailedSyncs is the number of failed syncs of the inode that this handle has
	// reported. disk.mu guards it.
	sawFailedSyncs uint64
}

func (f *file) Name() string { return f.name }

// check returns an error if the file is closed or the range is invalid.
func (f *file) check(op vfs.OpKind, off, n int64) error {
	if f.closed.Load() {
		return vfs.WrapError(op, f.name, vfs.ErrClosed)
	}
	return vfs.WrapError(op, f.name, checkRange(off, n))
}

// checkWrite also returns an error if the file is open for reading only.
func (f *file) checkWrite(op vfs.OpKind, off, n int64) error {
	if err := f.check(op, off, n); err != nil {
		return err
	}
	if !f.writes {
		return vfs.WrapError(op, f.name, errReadHandle)
	}
	return nil
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check(vfs.OpRead, off, int64(len(p))); err != nil {
		return 0, err
	}
	f.disk.mu.RLock()
	defer f.disk.mu.RUnlock()
	n := f.ino.live.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.checkWrite(vfs.OpWrite, off, int64(len(p))); err != nil {
		return 0, err
	}
	f.disk.before(vfs.Op{Kind: vfs.OpWrite, Category: f.cat, Path: f.name, Off: off, Len: int64(len(p))})
	m := f.disk
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.fitLocked(f.ino, off, int64(len(p)))
	if n > 0 {
		m.changeLocked(f.ino, func(c *content) { c.writeAt(p[:n], off) })
		op := fileOp{kind: vfs.OpWrite, off: off, n: n}
		if !m.keepsNothing {
			op.data = slices.Clone(p[:n])
		}
		m.recordLocked(f.ino, op)
	}
	if n < int64(len(p)) {
		return int(n), vfs.WrapError(vfs.OpWrite, f.name, vfs.ErrNoSpace)
	}
	return int(n), nil
}

func (f *file) Size() (int64, error) {
	if err := f.check(vfs.OpSize, 0, 0); err != nil {
		return 0, err
	}
	f.disk.mu.RLock()
	defer f.disk.mu.RUnlock()
	return f.ino.live.size, nil
}

func (f *file) Truncate(size int64) error {
	if err := f.checkWrite(vfs.OpTruncate, size, 0); err != nil {
		return err
	}
	f.disk.before(vfs.Op{Kind: vfs.OpTruncate, Category: f.cat, Path: f.name, Off: size})
	if size > fileSizeMax {
		return vfs.WrapError(vfs.OpTruncate, f.name, vfs.ErrNoSpace)
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.changeLocked(f.ino, func(c *content) { c.setSize(size) })
	f.disk.recordLocked(f.ino, fileOp{kind: vfs.OpTruncate, off: size})
	return nil
}

func (f *file) Preallocate(off, n int64) (reserved bool, err error) {
	if err := f.checkWrite(vfs.OpPreallocate, off, n); err != nil {
		return false, err
	}
	f.disk.before(vfs.Op{Kind: vfs.OpPreallocate, Category: f.cat, Path: f.name, Off: off, Len: n})
	m := f.disk
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case n > fileSizeMax-off, !m.mu.onlyGrows && m.fitLocked(f.ino, off, n) < n:
		return false, vfs.WrapError(vfs.OpPreallocate, f.name, vfs.ErrNoSpace)
	case !m.mu.onlyGrows:
		m.changeLocked(f.ino, func(c *content) { c.reserve(off, n) })
		m.recordLocked(f.ino, fileOp{kind: vfs.OpPreallocate, off: off, n: n})
		return true, nil
	case f.ino.live.size < off+n:
		m.changeLocked(f.ino, func(c *content) { c.setSize(off + n) })
		m.recordLocked(f.ino, fileOp{kind: vfs.OpTruncate, off: off + n})
	}
	return false, nil
}

// WillWrite does nothing: writes need no system call.
func (f *file) WillWrite(int64, int64) {}

// SyncRange does nothing. Crash covers data that reached the device early in any case.
func (f *file) SyncRange(off, n int64) error { return f.check(vfs.OpSyncRange, off, max(0, n)) }

// WaitRange does nothing because SyncRange starts nothing.
func (f *file) WaitRange(off, n int64) error { return f.check(vfs.OpWaitRange, off, max(0, n)) }

func (f *file) SyncData() error { return f.sync(vfs.OpSyncData) }
func (f *file) Sync() error     { return f.sync(vfs.OpSync) }

func (f *file) sync(op vfs.OpKind) error {
	if err := f.check(op, 0, 0); err != nil {
		return err
	}
	f.disk.before(vfs.Op{Kind: op, Category: f.cat, Path: f.name})
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.ino.sync()
	if f.sawFailedSyncs != f.ino.failedSyncs {
		f.sawFailedSyncs = f.ino.failedSyncs
		return vfs.WrapError(op, f.name, vfs.ErrIO)
	}
	return nil
}

// sync makes the changes in the journal durable.
func (ino *inode) sync() {
	if len(ino.journal) == 0 {
		return
	}
	if !ino.lostData {
		ino.durable = ino.live.fork()
	} else {
		ino.syncDirty()
	}
	ino.journal = nil
}

// syncDirty makes only the pages in the journal durable. Pages that an earlier failed
// sync lost are not dirty any more.
func (ino *inode) syncDirty() {
	for _, op := range ino.journal {
		if op.kind != vfs.OpTruncate {
			from := op.off / pageSize * pageSize
			to := min(ino.live.size, (op.off+op.n+pageSize-1)/pageSize*pageSize)
			ino.durable.copyRange(&ino.live, from, max(0, to-from))
		}
	}
	ino.durable.setSize(ino.live.size)
	ino.base = ino.live.fork()
}

func (f *file) Close() error {
	if f.closed.Swap(true) {
		return vfs.WrapError(vfs.OpClose, f.name, vfs.ErrClosed)
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.ino.handles--
	f.disk.dropLocked(f.ino)
	return nil
}

// mapping is a mapping of a file. It shows the bytes as of the call of Map.
type mapping struct {
	disk   *FS
	ino    *inode
	name   string
	data   []byte
	closed atomic.Bool
}

func (f *file) Map(n int64) (vfs.Mapping, error) {
	if err := f.check(vfs.OpMap, 0, n); err != nil {
		return nil, err
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if n > f.ino.live.size || n > math.MaxInt {
		return nil, vfs.WrapError(vfs.OpMap, f.name, errBeyondEnd)
	}
	data := f.ino.mapLocked(n)
	if invariant.Enabled {
		// Close overwrites this copy, so that later access shows.
		data = slices.Clone(data)
	}
	f.ino.handles++
	return &mapping{disk: f.disk, ino: f.ino, name: f.name, data: data}, nil
}

// mapLocked returns [0, n) of the file as one slice, which is the storage of the file.
func (ino *inode) mapLocked(n int64) []byte {
	if int64(len(ino.mapped)) < n || !ino.live.aliases(ino.mapped, n) {
		ino.mapped = ino.live.contiguous(n)
	}
	return ino.mapped[:n:n]
}

func (m *mapping) Bytes() []byte { return m.data }

func (m *mapping) check(op vfs.OpKind, off, n int64) error {
	switch {
	case m.closed.Load():
		return vfs.WrapError(op, m.name, vfs.ErrClosed)
	case off < 0 || n < 0 || n > int64(len(m.data))-off:
		return vfs.WrapError(op, m.name, errBeyondEnd)
	}
	return nil
}

func (m *mapping) WillNeed(off, n int64) error { return m.check(vfs.OpWillNeed, off, n) }
func (m *mapping) KeepUsed() error             { return m.check(vfs.OpKeepUsed, 0, 0) }
func (m *mapping) DontNeed(off, n int64) error { return m.check(vfs.OpDontNeed, off, n) }

func (m *mapping) Populate(off, n int64) (int64, error) { return n, m.check(vfs.OpPopulate, off, n) }

func (m *mapping) Close() error {
	if m.closed.Swap(true) {
		return vfs.WrapError(vfs.OpUnmap, m.name, vfs.ErrClosed)
	}
	invariant.Mangle(m.data)
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	m.ino.handles--
	m.disk.dropLocked(m.ino)
	return nil
}
