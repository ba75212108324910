package filebackup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// Dir returns a store in a directory, which the first Put creates. A nil fs is the file
// system of the operating system. The directory belongs to the store.
func Dir(fs vfs.FS, path string) Store {
	if fs == nil {
		fs = vfs.OS()
	}
	return &dirStore{fs: fs, path: path}
}

// A dirStore is a store in a directory. A slash in a name separates directories.
type dirStore struct {
	fs   vfs.FS
	path string
	// naming is held while a file of a database gets its name, durably. So a failed sync of
	// the directory leaves one name in doubt.
	naming sync.Mutex
}

// pathOf returns the path of an object.
func (s *dirStore) pathOf(name string) string {
	return s.fs.Join(append([]string{s.path}, strings.Split(name, "/")...)...)
}

// putsMax is how often a Put writes an object of which a Prune deletes the partial one.
const putsMax = 3

// Put writes a partial object of a random name, and then gives it its name. A Prune deletes
// all partial objects, also that of the claim of a backup that begins. Put then repeats.
func (s *dirStore) Put(ctx context.Context, name string, content *io.SectionReader) error {
	for i := 1; ; i++ {
		err := s.put(ctx, name, content)
		if i == putsMax || !errors.Is(err, errPruned) {
			return err
		}
	}
}

// errPruned says that a partial object is gone.
var errPruned = errors.New("filebackup: the partial object is gone")

func (s *dirStore) put(ctx context.Context, name string, content *io.SectionReader) error {
	temp, file, err := s.createPartial()
	if err != nil {
		return err
	}
	err = errors.Join(writeAll(ctx, file, content), file.Close())
	target := s.pathOf(name)
	if err == nil {
		err = s.fs.MkdirAll(s.fs.Dir(target))
	}
	replaces := false
	if err == nil {
		replaces, err = s.exists(target)
	}
	if err == nil {
		err = work.Given(ctx).Err() // a sync can take long
	}
	if strings.HasPrefix(name, filesDir) {
		s.naming.Lock()
		defer s.naming.Unlock()
		if err == nil {
			err = s.doubt(name)
		}
	}
	if err == nil {
		if err = s.fs.Rename(temp, target); errors.Is(err, vfs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", errPruned, err)
		}
	}
	if err != nil {
		_ = s.fs.Remove(temp) // Prune removes what is left
		return err
	}
	err = s.fs.SyncDir(s.fs.Dir(target))
	switch {
	case err == nil && isFile(name):
		_ = s.fs.Remove(s.noteOf(name)) // if it stays, settle puts the file again
	case err == nil:
	case strings.HasPrefix(name, filesDir):
		// Another backup may have put the same file of a database meanwhile, so the name stays.
		// A power cut may also bring back a damaged object that this one replaces. Another backup
		// may have removed the note before the file had its name.
		err = errors.Join(err, s.doubt(name))
	case replaces: // a name that was there before leads to one of the two objects
	default:
		// The next sync may succeed without making the name durable, so it must go.
		err = errors.Join(err, s.fs.Remove(target))
	}
	return err
}

// isFile reports whether a name is that of a file of a database.
func isFile(name string) bool { return strings.HasPrefix(name, filesDir) && isOurs(name) }

// noteOf returns the path of a note about a file of a database. It is a partial object of the
// same digits.
func (s *dirStore) noteOf(name string) string {
	return s.pathOf(partialDir + strings.TrimPrefix(name, filesDir))
}

// doubt notes that the name of a file of a database may not be durable, although the next sync
// may succeed. settle then puts the file again. Put makes the note before the name: after a
// failed sync, or a kill, it may be too late.
func (s *dirStore) doubt(name string) error {
	if !isFile(name) {
		return nil
	}
	note, err := s.fs.Create(s.noteOf(name), vfs.CatTemp)
	if errors.Is(err, vfs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return note.Close()
}

// settle puts the files of a database again whose names are in doubt.
func (s *dirStore) settle(ctx context.Context) error {
	notes, err := s.fs.List(s.pathOf(strings.TrimSuffix(partialDir, "/")))
	if errors.Is(err, vfs.ErrNotExist) {
		return nil
	}
	for _, digits := range notes {
		name := filesDir + digits
		if err != nil || !isFile(name) {
			continue
		}
		var r fileReader
		if r, err = openFile(s.fs, s.pathOf(name), vfs.CatNone); err == nil {
			err = errors.Join(s.Put(ctx, name, r.SectionReader), r.Close())
		}
		if err == nil || errors.Is(err, vfs.ErrNotExist) { // it was deleted, or never named
			err = s.fs.Remove(s.noteOf(name))
		}
		if errors.Is(err, vfs.ErrNotExist) {
			err = nil // the Put has removed it, or another backup
		}
	}
	return err
}

// exists reports whether there is a file.
func (s *dirStore) exists(path string) (bool, error) {
	_, err := s.fs.Stat(path)
	if errors.Is(err, vfs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// partialPath returns a random path for a partial object.
func (s *dirStore) partialPath() string {
	return s.pathOf(fmt.Sprintf("%s%016x", partialDir, rand.Uint64()))
}

// createPartial creates a file under a name that no other Put uses.
func (s *dirStore) createPartial() (path string, file vfs.File, err error) {
	if err := s.fs.MkdirAll(s.pathOf(strings.TrimSuffix(partialDir, "/"))); err != nil {
		return "", nil, err
	}
	for {
		path = s.partialPath()
		file, err = s.fs.Create(path, vfs.CatTemp)
		if !errors.Is(err, vfs.ErrExist) {
			return path, file, err
		}
	}
}

// writeAll writes content to a new file, durably but for its name.
func writeAll(ctx context.Context, to vfs.File, content *io.SectionReader) error {
	buf := make([]byte, bufferSize)
	back := vfs.NewWriteBack(to)
	for at := int64(0); at < content.Size(); {
		if err := work.Given(ctx).Err(); err != nil {
			return err
		}
		b := buf[:min(content.Size()-at, bufferSize)]
		if n, err := content.ReadAt(b, at); n < len(b) {
			return unexpected(err)
		}
		if _, err := to.WriteAt(b, at); err != nil {
			return err
		}
		at += int64(len(b))
		if err := back.Reached(at); err != nil {
			return err
		}
	}
	return to.Sync()
}

// unexpected returns the error of a read that came to the end too early.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// A fileReader reads a file from front to back.
type fileReader struct {
	*io.SectionReader
	file vfs.File
}

// Close closes the file.
func (r fileReader) Close() error { return r.file.Close() }

func (s *dirStore) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return openFile(s.fs, s.pathOf(name), vfs.CatNone)
}

// openFile opens a file for reading.
func openFile(fs vfs.FS, path string, cat vfs.Category) (r fileReader, err error) {
	file, err := fs.Open(path, cat)
	if err != nil {
		return r, err
	}
	size, err := file.Size()
	if err != nil {
		return r, errors.Join(err, file.Close())
	}
	return fileReader{io.NewSectionReader(file, 0, size), file}, nil
}

func (s *dirStore) List(ctx context.Context, prefix string) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		ctx, dir := work.Given(ctx), prefix[:strings.LastIndexByte(prefix, '/')+1]
		if dir == filesDir {
			if err := s.settle(ctx); err != nil {
				yield(Object{}, err)
				return
			}
		}
		s.list(ctx, dir, prefix, yield)
	}
}

// list yields the objects of a directory whose names begin with prefix. dir ends with a
// slash, unless it is empty. It reports whether the loop goes on.
//
// It syncs the directory first. A Put that a signal has killed may have left a name that is
// not durable.
func (s *dirStore) list(ctx context.Context, dir, prefix string, yield func(Object, error) bool) bool {
	path := s.pathOf(strings.TrimSuffix(dir, "/"))
	err := s.fs.SyncDir(path)
	var names []string
	if err == nil || errors.Is(err, vfs.ErrReadOnly) {
		names, err = s.fs.List(path)
	}
	if errors.Is(err, vfs.ErrNotExist) {
		return true
	}
	if err != nil {
		yield(Object{}, err)
		return false
	}
	for _, base := range names {
		name := dir + base
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		info, err := s.fs.Stat(s.pathOf(name))
		if errors.Is(err, vfs.ErrNotExist) {
			continue // it was deleted a moment ago
		}
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			yield(Object{}, err)
			return false
		case info.Dir && !s.list(ctx, name+"/", prefix, yield):
			return false
		case !info.Dir && !yield(Object{Name: name, Size: info.Size}, nil):
			return false
		}
	}
	return true
}

func (s *dirStore) Delete(ctx context.Context, name string) error {
	if err := work.Given(ctx).Err(); err != nil {
		return err
	}
	path := s.pathOf(name)
	if strings.HasPrefix(name, listsDir) {
		return s.deleteList(path)
	}
	if err := s.fs.Remove(path); errors.Is(err, vfs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return s.fs.SyncDir(s.fs.Dir(path))
}

// deleteList deletes a list. A list whose deletion fails comes back: the next sync may succeed
// without making the deletion durable, and a list must not outlive its files.
func (s *dirStore) deleteList(path string) error {
	if there, err := s.exists(path); !there {
		return err
	}
	if err := s.fs.MkdirAll(s.pathOf(strings.TrimSuffix(partialDir, "/"))); err != nil {
		return err
	}
	aside := s.partialPath()
	if err := s.fs.Rename(path, aside); errors.Is(err, vfs.ErrNotExist) {
		return nil // another process has just deleted it
	} else if err != nil {
		return err
	}
	if err := s.fs.SyncDir(s.fs.Dir(path)); err != nil {
		return errors.Join(err, s.fs.Rename(aside, path))
	}
	_ = s.fs.Remove(aside) // Prune removes what is left
	return nil
}
