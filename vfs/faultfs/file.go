package faultfs

import (
	"math/rand/v2"

	"github.com/stoatdb/stoat/vfs"
)

// file is an open file of an FS.
type file struct {
	vfs.File // for Name
	faults   *FS
	cat      vfs.Category
}

func (f *file) op(kind vfs.OpKind, off, n int64) vfs.Op {
	return vfs.Op{Kind: kind, Category: f.cat, Path: f.Name(), Off: off, Len: n}
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	return f.move(f.op(vfs.OpRead, off, int64(len(p))), p, f.File.ReadAt)
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	return f.move(f.op(vfs.OpWrite, off, int64(len(p))), p, f.File.WriteAt)
}

// move reads or writes p. A rule may let a part of p through.
func (f *file) move(op vfs.Op, p []byte, inner func([]byte, int64) (int, error)) (int, error) {
	rule := f.faults.call(op)
	if rule == nil {
		return inner(p, op.Off)
	}
	part := max(0, min(rule.Partial, len(p)))
	if rule.Done {
		part = len(p)
	}
	n := 0
	if part > 0 {
		n, _ = inner(p[:part], op.Off) // the call returns the error of the rule
	}
	return n, rule.fail(op.Kind, op.Path)
}

func (f *file) Size() (size int64, err error) {
	err = f.faults.run(f.op(vfs.OpSize, 0, 0), func() (err error) {
		size, err = f.File.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, nil
}

func (f *file) Truncate(size int64) error {
	return f.faults.run(f.op(vfs.OpTruncate, size, 0), func() error { return f.File.Truncate(size) })
}

func (f *file) Preallocate(off, n int64) (reserved bool, err error) {
	op := f.op(vfs.OpPreallocate, off, n)
	rule := f.faults.call(op)
	switch {
	case rule == nil:
		return f.File.Preallocate(off, n)
	case rule.Err == vfs.ErrUnsupported:
		return false, f.grow(off + n)
	case rule.Done:
		_, _ = f.File.Preallocate(off, n) // the call returns the error of the rule
	}
	return false, rule.fail(op.Kind, op.Path)
}

// grow sets the length to at least size.
func (f *file) grow(size int64) error {
	if have, err := f.File.Size(); err != nil || have >= size {
		return err
	}
	return f.File.Truncate(size)
}

func (f *file) SyncRange(off, n int64) error {
	return f.faults.run(f.op(vfs.OpSyncRange, off, n), func() error { return f.File.SyncRange(off, n) })
}

// WaitRange fails like a sync: the data that it waits for may be lost.
func (f *file) WaitRange(off, n int64) error {
	return f.sync(f.op(vfs.OpWaitRange, off, n), func() error { return f.File.WaitRange(off, n) })
}

// A syncFailer is a file that can simulate a failed sync.
type syncFailer interface {
	FailSync(fate vfs.SyncFate, rng *rand.Rand)
}

func (f *file) SyncData() error { return f.sync(f.op(vfs.OpSyncData, 0, 0), f.File.SyncData) }
func (f *file) Sync() error     { return f.sync(f.op(vfs.OpSync, 0, 0), f.File.Sync) }

func (f *file) sync(op vfs.Op, inner func() error) error {
	rule := f.faults.call(op)
	if rule == nil {
		return inner()
	}
	fate := rule.fate()
	if failer, ok := f.File.(syncFailer); ok {
		failer.FailSync(fate, rule.generator())
	} else if fate == vfs.SyncKept {
		_ = inner() // the call returns the error of the rule
	}
	return rule.fail(op.Kind, f.Name())
}

// Close closes the file even if a rule makes the call fail, because callers do not
// repeat a failed Close.
func (f *file) Close() error {
	rule := f.faults.call(f.op(vfs.OpClose, 0, 0))
	err := f.File.Close()
	if rule != nil {
		return rule.fail(vfs.OpClose, f.Name())
	}
	return err
}

func (f *file) Map(n int64) (vfs.Mapping, error) {
	rule := f.faults.call(f.op(vfs.OpMap, 0, n))
	if rule != nil {
		return nil, rule.fail(vfs.OpMap, f.Name())
	}
	m, err := f.File.Map(n)
	if err != nil {
		return nil, err
	}
	return &mapping{Mapping: m, file: f}, nil
}

// mapping is a mapping of a file of an FS.
type mapping struct {
	vfs.Mapping // for Bytes
	file        *file
}

func (m *mapping) run(kind vfs.OpKind, off, n int64, inner func(off, n int64) error) error {
	return m.file.faults.run(m.file.op(kind, off, n), func() error { return inner(off, n) })
}

func (m *mapping) WillNeed(off, n int64) error {
	return m.run(vfs.OpWillNeed, off, n, m.Mapping.WillNeed)
}

func (m *mapping) Populate(off, n int64) (brought int64, err error) {
	err = m.run(vfs.OpPopulate, off, n, func(off, n int64) (err error) {
		brought, err = m.Mapping.Populate(off, n)
		return err
	})
	return brought, err
}

func (m *mapping) KeepUsed() error {
	return m.run(vfs.OpKeepUsed, 0, 0, func(int64, int64) error { return m.Mapping.KeepUsed() })
}

func (m *mapping) DontNeed(off, n int64) error {
	return m.run(vfs.OpDontNeed, off, n, m.Mapping.DontNeed)
}

// Close removes the mapping even if a rule makes the call fail.
func (m *mapping) Close() error {
	rule := m.file.faults.call(m.file.op(vfs.OpUnmap, 0, 0))
	err := m.Mapping.Close()
	if rule != nil {
		return rule.fail(vfs.OpUnmap, m.file.Name())
	}
	return err
}
