package filebackup

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/newdir"
	"github.com/stoatdb/stoat/internal/record"
	"github.com/stoatdb/stoat/internal/seal"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs"
)

// RestoreOptions say how Restore works. The zero value of every field means its default.
type RestoreOptions struct {
	// FS is the file system of the database. Default: that of the operating system.
	FS vfs.FS
	// Workers is how many files are copied at once. Default: 4. Maximum: 256.
	Workers int
	// Keys has the master key of an encrypted database. Restore then verifies that it is
	// the right one, and gives the database an identity of its own. Without Keys, all
	// databases restored of one backup have the same identity. So incremental backups of
	// one (DB.Backup) are not recognised as foreign to another.
	Keys stoat.KeyProvider
}

const (
	// restoreSuffix is added to the name of a database that is being restored.
	restoreSuffix = ".restore"
	// partSuffix is added to the name of a file that is not complete.
	partSuffix = ".part"
)

// Restore makes a database in dir of a backup. An empty id is that of the newest backup. If
// dir exists, the error is fs.ErrExist of package io/fs. If a file is damaged, missing, or
// another one, the error is stoat.ErrCorrupt and names it. If the backup is deleted meanwhile,
// it is ErrNoBackup.
//
// Restore works in dir.restore, and renames that when it is complete and durable. After an
// error or a crash, dir does not exist. Then the next Restore verifies the files that are
// there, and copies the others.
func Restore(ctx context.Context, store Store, id, dir string, o RestoreOptions) (Info, error) {
	info, err := runRestore(work.Given(ctx), store, id, dir, o)
	if err != nil {
		return Info{}, fmt.Errorf("restore %s: %w", dir, err)
	}
	return info, nil
}

func runRestore(ctx context.Context, store Store, id, dir string, o RestoreOptions) (Info, error) {
	if err := checkWorkers(&o.Workers); err != nil {
		return Info{}, err
	}
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if dir == "" {
		return Info{}, base.Invalid("the directory has no name")
	}
	dir, err := o.FS.Abs(o.FS.Join(dir)) // Join drops a trailing separator
	if err != nil {
		return Info{}, err
	}
	r := restore{o: &o, fs: o.FS, store: store, dir: dir, temp: dir + restoreSuffix}
	if err := newdir.Unused(r.fs, r.dir); err != nil {
		return Info{}, err
	}
	if id, err = newestOr(ctx, store, id); err != nil {
		return Info{}, err
	}
	l, err := getList(ctx, store, id)
	if err != nil {
		return Info{}, err
	}
	if err := orDeleted(ctx, store, id, r.run(ctx, l)); err != nil {
		return Info{}, fmt.Errorf("backup %s: %w", id, err)
	}
	return l.info(), nil
}

// A restore is one restore.
type restore struct {
	o         *RestoreOptions
	fs        vfs.FS
	store     Store
	dir, temp string
}

func (r *restore) run(ctx context.Context, l *list) error {
	claim, err := newdir.Claim(r.fs, r.temp, r.dir)
	if err != nil {
		return err
	}
	defer func() { _ = claim.Close() }() // nothing is written through it
	if err := r.clean(l); err != nil {
		return err
	}
	if err := each(ctx, r.o.Workers, l.files, r.copy); err != nil {
		return err
	}
	if err := r.fs.SyncDir(r.temp); err != nil {
		// The next sync may succeed without making the names durable, so they must go.
		return errors.Join(err, r.clean(&list{}))
	}
	if err := r.renew(ctx); err != nil {
		return err
	}
	return r.rename()
}

// clean removes what an earlier restore left and this one does not need. It fails if there
// is a file that no restore made.
func (r *restore) clean(l *list) error {
	names, err := r.fs.List(r.temp)
	if err != nil {
		return err
	}
	needed := map[string]bool{}
	for _, f := range l.files {
		needed[f.name] = true
	}
	for _, name := range names {
		if _, ok := category(withoutSuffixes(name)); !ok {
			return fmt.Errorf("%s has a file that no restore made: %s", r.temp, name)
		}
	}
	for _, name := range names {
		if needed[name] {
			continue
		}
		if err := r.fs.Remove(r.fs.Join(r.temp, name)); err != nil {
			return err
		}
	}
	return nil
}

// withoutSuffixes returns the name of a file without that of its being incomplete.
func withoutSuffixes(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, partSuffix), ".tmp")
}

// copy copies a file from the store, unless an earlier restore did. The file gets its name
// when it is right and its content durable.
func (r *restore) copy(ctx context.Context, f *file) error {
	cat, _ := category(f.name)
	path := r.fs.Join(r.temp, f.name)
	if right, err := r.isRight(ctx, f, path, cat); right || err != nil {
		return err
	}
	part := path + partSuffix
	if err := r.fs.Remove(part); err != nil && !errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	to, err := r.fs.Create(part, cat)
	if err != nil {
		return err
	}
	back := vfs.NewWriteBack(to)
	err = fetch(ctx, r.store, f, func(b []byte, at int64) error {
		if _, err := to.WriteAt(b, at); err != nil {
			return err
		}
		return back.Reached(at + int64(len(b)))
	})
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		_ = r.fs.Remove(part) // the next restore removes what is left
		return err
	}
	return r.fs.Rename(part, path)
}

// isRight reports whether an earlier restore has copied a file. It removes another file
// under the name, such as of another backup.
func (r *restore) isRight(ctx context.Context, f *file, path string, cat vfs.Category) (bool, error) {
	there, err := openFile(r.fs, path, cat)
	if errors.Is(err, vfs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = there.Close() }() // it was only read
	if there.Size() == f.size {
		if s, err := sumOf(ctx, there.SectionReader); err != nil || s == f.sum {
			return err == nil, err
		}
	}
	return false, r.fs.Remove(path)
}

// renew writes the manifest anew with an identity that no other database has. Without the
// keys of an encrypted database, it leaves the manifest alone.
func (r *restore) renew(ctx context.Context) error {
	sealed, err := seal.Exist(r.fs, r.temp)
	if err != nil || sealed && r.o.Keys == nil {
		return err
	}
	var sealer record.Sealer
	if sealed {
		keys, err := seal.Load(ctx, seal.Options{FS: r.fs, Dir: r.temp, Provider: r.o.Keys, Clock: base.SystemClock{},
			Random: rand.Reader, ReadOnly: true})
		if err != nil {
			return err
		}
		sealer = keys
	}
	old, state, err := manifest.Load(r.fs, r.temp, true, mathrand.Uint64, sealer)
	if err != nil {
		return err
	}
	if err := old.Close(); err != nil {
		return err
	}
	names, err := r.fs.List(r.temp)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := manifest.ParseFileName(name); ok {
			if err := r.fs.Remove(r.fs.Join(r.temp, name)); err != nil {
				return err
			}
		}
	}
	binary.LittleEndian.PutUint64(state.ID[:8], mathrand.Uint64())
	binary.LittleEndian.PutUint64(state.ID[8:], mathrand.Uint64())
	m, err := manifest.CreateFor(r.fs, r.temp, state, mathrand.Uint64, sealer)
	if err != nil {
		return err
	}
	return m.Close()
}

// rename gives the database its name, durably, and makes its lock file.
func (r *restore) rename() error {
	if _, err := newdir.Publish(r.fs, r.temp, r.dir); err != nil {
		return err
	}
	_ = newdir.AddLock(r.fs, r.dir) // the next writer makes it
	return nil
}
