package follow

import (
	"context"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
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

	store *state.Store
	slot  *state.Slot
	files map[string]vfs.File
}

// Pin opens all files of the newest state through fs. A slot keeps what readers of the
// database use of them.
func (f *Follower) Pin(ctx context.Context, fs vfs.FS) (*Pinned, error) {
	for try := 0; ; try++ {
		if err := f.Refresh(ctx); err != nil {
			return nil, err
		}
		p := &Pinned{store: f.store, files: map[string]vfs.File{}}
		p.FS = pinnedFS{fs, p.files}
		slot, held, err := f.store.HoldFiles()
		if err != nil {
			return nil, err
		}
		p.State, p.slot = held, slot
		if err = p.openAll(fs, f.store.Dir()); err == nil {
			return p, nil
		}
		p.Close()
		if !errors.Is(err, vfs.ErrNotExist) || try >= triesMax {
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
	for _, level := range p.State.Version.Levels {
		for _, t := range level {
			if err := open(base.TableName(t.Num), vfs.CatTable); err != nil {
				return err
			}
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
