package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A fileLife is file backups of two databases in one store. The databases use the same
// numbers for their files.
type fileLife struct {
	rng   *rand.Rand
	lives [2]*life
	disk  *memfs.FS // of the store
	store filebackup.Store
	made  []fileBackup
}

// A fileBackup is a backup, and what the database had then.
type fileBackup struct {
	id   string
	of   *life
	dump dump
	ms   int64 // the time of the dump
}

func newFileLife(seed uint64) (*fileLife, error) {
	f := &fileLife{rng: rand.New(rand.NewPCG(seed, 12)), disk: memfs.New()}
	f.store = filebackup.Dir(f.disk, "/store")
	for i := range f.lives {
		l, err := newLife(seed)
		if err != nil {
			return nil, err
		}
		if i == 1 {
			l.rng = rand.New(rand.NewPCG(seed, 13))
		}
		f.lives[i] = l
	}
	return f, nil
}

func (f *fileLife) close() error { return errors.Join(f.lives[0].db.Close(), f.lives[1].db.Close()) }

// backUp changes a database, and makes a backup of it.
func (f *fileLife) backUp(ctx context.Context, l *life, acts int, store filebackup.Store) error {
	for range acts {
		if err := l.act(ctx); err != nil {
			return err
		}
	}
	r, err := filebackup.Backup(ctx, l.db, store, filebackup.Options{FS: l.opts.FS, Temp: "/temp", Workers: 1 + f.rng.IntN(3)})
	if err != nil {
		return err
	}
	if names, err := l.opts.FS.List("/"); err != nil || slices.Contains(names, "temp") {
		return fmt.Errorf("the backup left its directory: %v, %w", names, err)
	}
	seen, err := snapshotOf(l.db, l.clock.Ms.Load())
	f.made = append(f.made, fileBackup{r.ID, l, seen, l.clock.Ms.Load()})
	return err
}

// check restores a backup from a store to a disk of its own, and compares.
func (b *fileBackup) check(ctx context.Context, store filebackup.Store, disk *memfs.FS, dir string) error {
	if _, err := filebackup.Restore(ctx, store, b.id, dir, filebackup.RestoreOptions{FS: disk, Keys: b.of.opts.Keys}); err != nil {
		return err
	}
	return b.compare(ctx, disk, dir)
}

// compare compares a restored database with what the original had.
func (b *fileBackup) compare(ctx context.Context, disk *memfs.FS, dir string) error {
	copied := &life{opts: b.of.opts, clock: testkit.NewClock()}
	copied.clock.Ms.Store(b.ms)
	copied.opts.FS, copied.opts.Clock = disk, copied.clock
	return copied.compare(ctx, dir, b.dump)
}

// checkSome verifies all backups in the store, and restores the newest one and another.
func (f *fileLife) checkSome(ctx context.Context) error {
	infos, err := filebackup.List(ctx, f.store)
	if err != nil {
		return err
	}
	for i, info := range infos {
		if _, err := filebackup.Verify(ctx, f.store, info.ID); err != nil {
			return err
		}
		if i != len(infos)-1 && f.rng.IntN(len(infos)) > 0 {
			continue
		}
		at := slices.IndexFunc(f.made, func(b fileBackup) bool { return b.id == info.ID })
		if at < 0 {
			return fmt.Errorf("the store has a backup that no call returned: %s", info.ID)
		}
		if err := f.made[at].check(ctx, f.store, memfs.New(), "/r"); err != nil {
			return fmt.Errorf("backup %d of %d: %w", at, len(f.made), err)
		}
	}
	return nil
}

// A meddler is a store that prunes itself before one of its Puts.
type meddler struct {
	filebackup.Store
	puts atomic.Int32 // until it prunes
	keep int
}

func (m *meddler) Put(ctx context.Context, name string, content *io.SectionReader) error {
	if m.puts.Add(-1) == 0 {
		if _, err := filebackup.Prune(ctx, m.Store, m.keep); err != nil {
			return err
		}
	}
	return m.Store.Put(ctx, name, content)
}

// RunFiles plays a life with so many file backups, beside deletions of old ones.
func RunFiles(seed uint64, backups int) (err error) {
	f, err := newFileLife(seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	ctx := context.Background()
	for i := range backups {
		store := f.store
		if f.rng.IntN(3) == 0 {
			m := &meddler{Store: store}
			m.puts.Store(1 + f.rng.Int32N(12))
			m.keep = 1 + f.rng.IntN(3)
			store = m
		}
		if err = f.backUp(ctx, f.lives[f.rng.IntN(8)/7], f.rng.IntN(30), store); err != nil {
			return fmt.Errorf("backup %d: %w", i, err)
		}
		if err = f.checkSome(ctx); err != nil {
			return fmt.Errorf("after backup %d: %w", i, err)
		}
		if f.rng.IntN(6) == 0 {
			keep := 1 + f.rng.IntN(5)
			if _, err = filebackup.Prune(ctx, f.store, keep); err == nil {
				err = f.checkSome(ctx)
			}
			if err != nil {
				return fmt.Errorf("prune after backup %d: %w", i, err)
			}
		}
	}
	return f.onlyNeeded(ctx)
}

// onlyNeeded checks that a Prune leaves the files of one backup.
func (f *fileLife) onlyNeeded(ctx context.Context) error {
	if _, err := filebackup.Prune(ctx, f.store, 1); err != nil {
		return err
	}
	infos, err := filebackup.List(ctx, f.store)
	if err != nil || len(infos) != 1 {
		return fmt.Errorf("%d backups after Prune: %w", len(infos), err)
	}
	files, bytes := 0, int64(0)
	for o, err := range f.store.List(ctx, "") {
		if err != nil {
			return err
		}
		files, bytes = files+1, bytes+o.Size
	}
	if files > infos[0].Files+1 {
		return fmt.Errorf("the store has %d objects of %d bytes, the backup %d files of %d bytes", files, bytes, infos[0].Files, infos[0].Bytes)
	}
	return nil
}

// damageObject damages an object of the store at random, and says how. undo repairs it.
func (f *fileLife) damageObject(ctx context.Context, name string, others []string) (what string, undo func() error, err error) {
	path := "/store/" + name
	was, err := testkit.ReadFile(f.disk, path)
	if err != nil {
		return "", nil, err
	}
	undo = func() error { return f.replace(path, was) }
	bad := bytes.Clone(was)
	switch f.rng.IntN(8) {
	case 0:
		n := f.rng.IntN(len(was))
		return fmt.Sprintf("cut to %d of %d bytes", n, len(was)), undo, f.replace(path, was[:n])
	case 1:
		return "a byte more", undo, f.replace(path, append(bad, byte(f.rng.IntN(256))))
	case 2:
		return "deleted", undo, f.disk.Remove(path)
	case 3:
		other := others[f.rng.IntN(len(others))]
		b, err := testkit.ReadFile(f.disk, "/store/"+other)
		if err == nil && !bytes.Equal(b, was) {
			return "exchanged for " + other, undo, f.replace(path, b)
		}
	}
	at, by := f.rng.IntN(len(was)), byte(1+f.rng.IntN(255))
	bad[at] ^= by
	return fmt.Sprintf("byte %d changed by %#x", at, by), undo, f.replace(path, bad)
}

// replace replaces a file.
func (f *fileLife) replace(path string, b []byte) error {
	if err := f.disk.Remove(path); err != nil && !errors.Is(err, vfs.ErrNotExist) {
		return err
	}
	return testkit.WriteFile(f.disk, path, b)
}

// RunFileDamages damages objects of a store n times. Each time Verify must refuse the
// backup. So must Restore now and then, which leaves no database.
func RunFileDamages(seed uint64, n int) (err error) {
	f, err := newFileLife(seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	ctx := context.Background()
	for range 3 {
		if err := f.backUp(ctx, f.lives[0], 25, f.store); err != nil {
			return err
		}
	}
	// All remaining files are of the newest backup.
	if _, err := filebackup.Prune(ctx, f.store, 1); err != nil {
		return err
	}
	var names []string
	for o, err := range f.store.List(ctx, "") {
		if err != nil {
			return err
		}
		names = append(names, o.Name)
	}
	newest := &f.made[len(f.made)-1]
	for i := range n {
		name := names[f.rng.IntN(len(names))]
		what, undo, err := f.damageObject(ctx, name, names)
		if err != nil {
			return err
		}
		if err := f.refused(ctx, newest.id, i%16 == 0); err != nil {
			return fmt.Errorf("%s, %s: %w", name, what, err)
		}
		if err := undo(); err != nil {
			return err
		}
	}
	return newest.check(ctx, f.store, memfs.New(), "/r")
}

// refused checks that Verify and Restore refuse a backup.
func (f *fileLife) refused(ctx context.Context, id string, restore bool) error {
	refused := func(err error) bool {
		return errors.Is(err, stoat.ErrCorrupt) || errors.Is(err, stoat.ErrVersion) || errors.Is(err, filebackup.ErrNoBackup)
	}
	if _, err := filebackup.Verify(ctx, f.store, id); !refused(err) {
		return fmt.Errorf("verify says %v", err)
	}
	if !restore {
		return nil
	}
	disk := memfs.New()
	if _, err := filebackup.Restore(ctx, f.store, id, "/r", filebackup.RestoreOptions{FS: disk}); !refused(err) {
		return fmt.Errorf("restore says %v", err)
	}
	if _, err := disk.Stat("/r"); !errors.Is(err, vfs.ErrNotExist) {
		return fmt.Errorf("restore left a database: %v", err)
	}
	return nil
}
