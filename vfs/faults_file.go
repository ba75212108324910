package vfs

import "math/rand/v2"

// faultFile is a file of a Faults.
type faultFile struct {
	File   // for Name
	faults *Faults
	cat    Category
}

func (f *faultFile) op(kind OpKind, off, n int64) Op {
	return Op{Kind: kind, Category: f.cat, Path: f.Name(), Off: off, Len: n}
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	return f.move(f.op(OpRead, off, int64(len(p))), p, f.File.ReadAt)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	return f.move(f.op(OpWrite, off, int64(len(p))), p, f.File.WriteAt)
}

// move is a read or write, of which a rule may let a part through.
func (f *faultFile) move(op Op, p []byte, inner func([]byte, int64) (int, error)) (int, error) {
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
		n, _ = inner(p[:part], op.Off) // the rule's error stands for both
	}
	return n, rule.fail(op.Kind, op.Path)
}

func (f *faultFile) Size() (size int64, err error) {
	err = f.faults.run(f.op(OpSize, 0, 0), func() (err error) {
		size, err = f.File.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, nil
}

func (f *faultFile) Truncate(size int64) error {
	return f.faults.run(f.op(OpTruncate, size, 0), func() error { return f.File.Truncate(size) })
}

func (f *faultFile) Preallocate(off, n int64) (reserved bool, err error) {
	op := f.op(OpPreallocate, off, n)
	rule := f.faults.call(op)
	switch {
	case rule == nil:
		return f.File.Preallocate(off, n)
	case rule.Err == ErrUnsupported:
		return false, f.grow(off + n)
	case rule.Done:
		_, _ = f.File.Preallocate(off, n) // the rule's error stands for both
	}
	return false, rule.fail(op.Kind, op.Path)
}

// grow sets the size to at least size.
func (f *faultFile) grow(size int64) error {
	if have, err := f.File.Size(); err != nil || have >= size {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultFile) SyncRange(off, n int64) error {
	return f.faults.run(f.op(OpSyncRange, off, n), func() error { return f.File.SyncRange(off, n) })
}

// WaitRange fails as a sync does: what was being written back may be lost.
func (f *faultFile) WaitRange(off, n int64) error {
	return f.sync(f.op(OpWaitRange, off, n), func() error { return f.File.WaitRange(off, n) })
}

func (f *faultFile) SyncData() error { return f.sync(f.op(OpSyncData, 0, 0), f.File.SyncData) }
func (f *faultFile) Sync() error     { return f.sync(f.op(OpSync, 0, 0), f.File.Sync) }

func (f *faultFile) sync(op Op, inner func() error) error {
	rule := f.faults.call(op)
	if rule == nil {
		return inner()
	}
	fate := rule.fate()
	if mem, ok := f.File.(interface{ failSync(SyncFate, *rand.Rand) }); ok {
		mem.failSync(fate, rule.generator())
	} else if fate == SyncKept {
		_ = inner() // the rule's error stands for both
	}
	return rule.fail(op.Kind, f.Name())
}

// Close closes the file, also when a rule reports it as failed: no caller
// could do it again.
func (f *faultFile) Close() error {
	rule := f.faults.call(f.op(OpClose, 0, 0))
	err := f.File.Close()
	if rule != nil {
		return rule.fail(OpClose, f.Name())
	}
	return err
}

func (f *faultFile) Map(n int64) (Mapping, error) {
	rule := f.faults.call(f.op(OpMap, 0, n))
	if rule != nil {
		return nil, rule.fail(OpMap, f.Name())
	}
	m, err := f.File.Map(n)
	if err != nil {
		return nil, err
	}
	return &faultMapping{Mapping: m, file: f}, nil
}

// faultMapping is a mapping of a Faults.
type faultMapping struct {
	Mapping // for Bytes
	file    *faultFile
}

func (m *faultMapping) run(kind OpKind, off, n int64, inner func(off, n int64) error) error {
	return m.file.faults.run(m.file.op(kind, off, n), func() error { return inner(off, n) })
}

func (m *faultMapping) WillNeed(off, n int64) error {
	return m.run(OpWillNeed, off, n, m.Mapping.WillNeed)
}

func (m *faultMapping) Populate(off, n int64) (brought int64, err error) {
	err = m.run(OpPopulate, off, n, func(off, n int64) (err error) {
		brought, err = m.Mapping.Populate(off, n)
		return err
	})
	return brought, err
}

func (m *faultMapping) DontNeed(off, n int64) error {
	return m.run(OpDontNeed, off, n, m.Mapping.DontNeed)
}

// Close ends the mapping, also when a rule reports it as failed.
func (m *faultMapping) Close() error {
	rule := m.file.faults.call(m.file.op(OpUnmap, 0, 0))
	err := m.Mapping.Close()
	if rule != nil {
		return rule.fail(OpUnmap, m.file.Name())
	}
	return err
}
