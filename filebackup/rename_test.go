package filebackup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A windowsFS is a file system that, as that of Windows, renames no directory with an open
// file in it. Locks and mappings count as open files.
type windowsFS struct {
	vfs.FS
	interrupt bool // the next Rename of a directory that it would do fails

	mu      sync.Mutex
	open    map[string]int // guarded by mu: handles of each path
	renamed int            // guarded by mu: directories
}

// errInterrupted is the error of a Rename that windowsFS.interrupt made fail.
var errInterrupted = errors.New("interrupted")

// add counts handles of a path.
func (f *windowsFS) add(path string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open = map[string]int{}
	}
	f.open[path] += n
}

// left returns the paths below a directory with open handles, or with too many closed ones.
func (f *windowsFS) left(dir string) (paths []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, n := range f.open {
		if n != 0 && strings.HasPrefix(path, dir+"/") {
			paths = append(paths, fmt.Sprintf("%s (%d)", path, n))
		}
	}
	return paths
}

func (f *windowsFS) opened(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	f.add(file.Name(), 1)
	return &windowsFile{File: file, fs: f}, nil
}

func (f *windowsFS) Create(name string, cat vfs.Category) (vfs.File, error) {
	return f.opened(f.FS.Create(name, cat))
}

func (f *windowsFS) Open(name string, cat vfs.Category) (vfs.File, error) {
	return f.opened(f.FS.Open(name, cat))
}

func (f *windowsFS) OpenReadWrite(name string, cat vfs.Category) (vfs.File, error) {
	return f.opened(f.FS.OpenReadWrite(name, cat))
}

func (f *windowsFS) locked(name string, lock io.Closer, err error) (io.Closer, error) {
	if err != nil {
		return nil, err
	}
	f.add(name, 1)
	return closer(func() error { f.add(name, -1); return lock.Close() }), nil
}

func (f *windowsFS) Lock(name string) (io.Closer, error) {
	lock, err := f.FS.Lock(name)
	return f.locked(name, lock, err)
}

func (f *windowsFS) LockShared(name string) (io.Closer, error) {
	lock, err := f.FS.LockShared(name)
	return f.locked(name, lock, err)
}

func (f *windowsFS) Rename(from, to string) error {
	info, err := f.Stat(from)
	if err != nil || !info.Dir {
		return errors.Join(err, f.FS.Rename(from, to))
	}
	if left := f.left(from); len(left) > 0 {
		return fmt.Errorf("rename %s: access is denied, because of open files: %s", from, left)
	}
	if f.interrupt {
		f.interrupt = false
		return errInterrupted
	}
	f.mu.Lock()
	f.renamed++
	f.mu.Unlock()
	return f.FS.Rename(from, to)
}

type windowsFile struct {
	vfs.File
	fs *windowsFS
}

func (f *windowsFile) Close() error {
	f.fs.add(f.Name(), -1)
	return f.File.Close()
}

func (f *windowsFile) Map(n int64) (vfs.Mapping, error) {
	m, err := f.File.Map(n)
	if err != nil {
		return nil, err
	}
	f.fs.add(f.Name(), 1)
	return &windowsMapping{m, f}, nil
}

type windowsMapping struct {
	vfs.Mapping
	of *windowsFile
}

func (m *windowsMapping) Close() error {
	m.of.fs.add(m.of.Name(), -1)
	return m.Mapping.Close()
}

type closer func() error

func (c closer) Close() error { return c() }

func TestRestore_HasNoOpenFileWhenItRenames(t *testing.T) {
	t.Parallel()
	disk := memfs.New()
	db := testkit.OpenOn(t, disk, nil)
	testkit.SetKeys(t, db, 0, 500, 700, 'x')
	testkit.SetKeys(t, db, 500, 510, 20_000, 'y') // in value files
	var full bytes.Buffer
	_, err := db.Backup(t.Context(), &full, stoat.BackupOptions{})
	testkit.Must(t, err)
	store := filebackup.Dir(memfs.New(), "/store")
	_, err = filebackup.Backup(t.Context(), db, store, filebackup.Options{FS: disk, Temp: "/temp"})
	testkit.Must(t, err)
	testkit.Must(t, db.Close())
	for name, run := range map[string]func(fs vfs.FS) error{
		"restore": func(fs vfs.FS) error {
			_, err := stoat.Restore(t.Context(), "/copy", stoat.RestoreOptions{Options: &stoat.Options{FS: fs}}, bytes.NewReader(full.Bytes()))
			return err
		},
		"file restore": func(fs vfs.FS) error {
			_, err := filebackup.Restore(t.Context(), store, "", "/copy", filebackup.RestoreOptions{FS: fs})
			return err
		},
		"salvage": func(fs vfs.FS) error {
			_, err := stoat.Salvage(t.Context(), testkit.Dir, "/copy", stoat.SalvageOptions{FS: fs})
			return err
		},
		"checkpoint": func(fs vfs.FS) error {
			db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: fs})
			if err != nil {
				return err
			}
			return errors.Join(db.Checkpoint(t.Context(), "/copy"), db.Close())
		},
	} {
		for _, interrupt := range []bool{false, true} {
			fs := &windowsFS{FS: disk.Crash(memfs.KeepAll, nil), interrupt: interrupt}
			err := run(fs)
			if interrupt {
				if !errors.Is(err, errInterrupted) {
					t.Errorf("%s that is interrupted: %v", name, err)
				}
				err = run(fs)
			}
			if left := fs.left(""); err != nil || fs.renamed != 1 || len(left) > 0 {
				t.Errorf("%s, interrupted before: %t: %v, %d directories renamed, open files: %s", name, interrupt, err, fs.renamed, left)
			}
			restored, err := stoat.Open("/copy", &stoat.Options{FS: fs})
			if err != nil {
				t.Errorf("%s, interrupted before: %t: %v", name, interrupt, err)
				continue
			}
			testkit.MustBeSound(t, restored)
			testkit.Must(t, restored.Close())
		}
	}
}
