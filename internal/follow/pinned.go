package follow

import (
	"context"
	"errors"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/vfs"
)

// Pinned files are all files of a state, open until Close. The writer may remove their
// names meanwhile.
type Pinned struct {
	// State is what readers saw when the files were opened.
	State manifest.State
	// FS opens these files by their names, and other files as before.
	FS vfs.FS
	// Memtables, which take no writes any more, have the commits up to Visible that are
	// not in tables. Only PinAll sets them.
	Memtables []*memtable.Table
	Visible   base.SeqNum

	store *state.Store
	slot  *state.Slot
	files map[string]vfs.File
}

// Pin opens all files of the newest state through fs. A slot keeps what readers of the
// database use of them.
func (f *Follower) Pin(ctx context.Context, fs vfs.FS) (*Pinned, error) {
	return f.pin(ctx, fs, func(p *Pinned) (err error) {
		p.slot, p.State, err = f.store.HoldFiles()
		return err
	})
}

// PinAll is Pin with the memtables. First it looks for damage where more should come.
func (f *Follower) PinAll(ctx context.Context, fs vfs.FS) (*Pinned, error) {
	if !f.mu.LockUntil(ctx.Done()) {
		return nil, ctx.Err()
	}
	f.quiet.after = 0
	f.mu.Unlock()
	return f.pin(ctx, fs, func(p *Pinned) error { return f.holdAll(ctx, p) })
}

// holdAll holds what readers see.
func (f *Follower) holdAll(ctx context.Context, p *Pinned) error {
	if !f.mu.LockUntil(ctx.Done()) {
		return ctx.Err()
	}
	defer f.mu.Unlock()
	p.State, p.Visible = f.store.State(), f.store.Visible()
	if f.store.View().Memtables[0].LastSeq() > p.Visible {
		return errUnseen
	}
	slot, v, err := f.store.HoldView()
	if err != nil {
		return err
	}
	p.slot = slot
	for _, t := range v.Memtables {
		if t.Len() > 0 {
			p.Memtables = append(p.Memtables, t)
		}
	}
	if active := v.Memtables[0]; active.Len() > 0 {
		next := f.store.Memory.NewTable(active.Len())
		f.store.AddMemtables(base.SegmentRef{}, next)
		if !f.private && f.log != nil {
			f.tables = slices.Insert(slices.Clone(f.tables), 0, next)
		}
	}
	return nil
}

// errUnseen says that a round ended early, and that a memtable has what readers do not see
// yet.
var errUnseen = errors.New("the log is read anew")

// pin opens all files of the newest state, which hold stores in the result with a slot.
func (f *Follower) pin(ctx context.Context, fs vfs.FS, hold func(*Pinned) error) (*Pinned, error) {
	for try := 0; ; try++ {
		if err := f.Refresh(ctx); err != nil {
			return nil, err
		}
		p := &Pinned{store: f.store, files: map[string]vfs.File{}}
		p.FS = pinnedFS{fs, p.files}
		err := hold(p)
		if err == nil {
			if err = p.openAll(fs, f.store.Dir()); err == nil {
				return p, nil
			}
			p.Close()
		}
		if err != errUnseen && !errors.Is(err, vfs.ErrNotExist) || try >= triesMax {
			return nil, err
		}
	}
}

func (p *Pinned) openAll(fs vfs.FS, dir string) error {
	open := func(name string, cat vfs.Category) error {
		path := fs.Join(dir, name)
		file, err := fs.Open(path, cat)
		if err == nil {
			p.files[path] = file
		}
		return err
	}
	for t := range p.State.Version.Tables() {
		if err := open(base.TableName(t.Num), vfs.CatTable); err != nil {
			return err
		}
	}
	for _, v := range p.State.Version.Values {
		if err := open(base.ValueName(v.File), vfs.CatValue); err != nil {
			return err
		}
	}
	return nil
}

// Close closes the files.
func (p *Pinned) Close() {
	for _, file := range p.files {
		_ = file.Close() // it was only read
	}
	p.store.Release(p.slot)
}

// A pinnedFS opens files that are open already.
type pinnedFS struct {
	vfs.FS
	files map[string]vfs.File
}

// Open opens a file for reading.
func (f pinnedFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	if file := f.files[name]; file != nil {
		return shared{file}, nil
	}
	return f.FS.Open(name, cat)
}

// A shared file stays open.
type shared struct{ vfs.File }

// Close does nothing.
func (shared) Close() error { return nil }
