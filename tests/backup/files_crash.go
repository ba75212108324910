package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/filebackup"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A storeCut is the disk of a store at a boundary of a backup or a Prune.
type storeCut struct {
	cut
	whole []string // IDs of the backups that a power cut must leave
}

// runFileCrashes cuts the power of a store at up to n boundaries of backups and deletions of
// backups. After each cut, all backups of which the store has a list must be whole, and a
// Prune and another backup must succeed.
func runFileCrashes(seed uint64, n int) (err error) {
	f, err := newFileLife(seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	ctx := context.Background()
	cuts, err := f.storeCuts(ctx)
	if err != nil {
		return err
	}
	for i := range n {
		c := cuts[f.rng.IntN(len(cuts))]
		disk, how := c.crash(i, f.rng)
		f.disk, f.store = disk, filebackup.Dir(disk, "/store")
		if err := f.checkCut(ctx, c.whole); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
	}
	return nil
}

// storeCuts returns the disk of the store before each call that changes it.
func (f *fileLife) storeCuts(ctx context.Context) (cuts []storeCut, err error) {
	var whole []string
	f.disk.SetHook(func(op vfs.Op) {
		cuts = append(cuts, storeCut{cut{f.disk.Clone(), op.String()}, whole})
	})
	defer f.disk.SetHook(nil)
	for range 5 {
		l := f.lives[f.rng.IntN(4)/3]
		for range 12 {
			if err := l.act(ctx); err != nil {
				return nil, err
			}
		}
		if err := f.oneWorker(ctx, l); err != nil {
			return nil, err
		}
		whole = append(slices.Clone(whole), f.made[len(f.made)-1].id)
		if len(whole) > 2 {
			whole = whole[len(whole)-2:] // Prune begins to delete the others
			if _, err := filebackup.Prune(ctx, f.store, 2); err != nil {
				return nil, err
			}
		}
	}
	return cuts, nil
}

// oneWorker makes a backup with one worker: the hook of a disk is called by one goroutine.
func (f *fileLife) oneWorker(ctx context.Context, l *life) error {
	r, err := filebackup.Backup(ctx, l.db, f.store, filebackup.Options{FS: l.opts.FS, Temp: "/temp", Workers: 1})
	if err != nil {
		return err
	}
	seen, err := snapshotOf(l.db, l.clock.Ms.Load())
	f.made = append(f.made, fileBackup{r.ID, l, seen, l.clock.Ms.Load()})
	return err
}

// checkCut checks a store after a power cut.
func (f *fileLife) checkCut(ctx context.Context, whole []string) error {
	infos, err := filebackup.List(ctx, f.store)
	if err != nil {
		return err
	}
	for _, id := range whole {
		if !slices.ContainsFunc(infos, func(i filebackup.Info) bool { return i.ID == id }) {
			return fmt.Errorf("backup %s is lost", id)
		}
	}
	if err := f.checkSome(ctx); err != nil {
		return err
	}
	if err := f.forgetClaims(ctx); err != nil {
		return err
	}
	_, err = filebackup.Prune(ctx, f.store, 2)
	if none := len(infos) == 0 && errors.Is(err, filebackup.ErrNoBackup); err != nil && !none { // no list yet
		return err
	}
	made := f.made
	defer func() { f.made = made }()
	l := f.lives[f.rng.IntN(2)]
	if err := f.oneWorker(ctx, l); err != nil {
		return err
	}
	return f.checkSome(ctx)
}

// runFileRestoreCrashes restores a backup and cuts the power at up to n boundaries. After
// each cut, the directory must hold the whole database or not exist, and another Restore
// must complete it. It returns how many restores went on where the first one had stopped.
func runFileRestoreCrashes(seed uint64, n int) (resumed int, err error) {
	f, err := newFileLife(seed)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	ctx := context.Background()
	if err := f.backUp(ctx, f.lives[0], 40, f.store); err != nil {
		return 0, err
	}
	b := &f.made[0]
	disk := memfs.New()
	cuts, writes, err := cutsOf(disk, func() error {
		o := filebackup.RestoreOptions{FS: disk, Workers: 1, Keys: b.of.opts.Keys}
		_, err := filebackup.Restore(ctx, f.store, b.id, target, o)
		return err
	})
	if err == nil {
		err = commitAfterKills(cuts, *b.of.other())
	}
	if err != nil {
		return 0, err
	}
	return resumeAll(f.rng, cuts, writes, n, func(disk *memfs.FS) (int, error) { return f.restoreAgain(ctx, b, disk) })
}

// restoreAgain restores, unless a crash left the database, and compares. It returns how many
// calls wrote to files.
func (f *fileLife) restoreAgain(ctx context.Context, b *fileBackup, disk *memfs.FS) (writes int, err error) {
	_, err = disk.Stat(target)
	if err != nil && !errors.Is(err, vfs.ErrNotExist) {
		return 0, err
	}
	if err != nil {
		stop := testkit.Writes(disk)
		o := filebackup.RestoreOptions{FS: disk, Workers: 1, Keys: b.of.opts.Keys}
		_, err = filebackup.Restore(ctx, f.store, b.id, target, o)
		writes = stop()
		if err != nil {
			return 0, fmt.Errorf("restore again: %w", err)
		}
	}
	return writes, b.compare(ctx, disk, target)
}

// RunFileFaults lets calls of the file system fail while a backup is made and restored. Each
// failure must be an error that leaves the earlier backup whole, and no half database. It
// returns how many calls failed.
func RunFileFaults(seed uint64, n int) (failed int, err error) {
	f, err := newFileLife(seed)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	ctx := context.Background()
	l := f.lives[0]
	if err := f.backUp(ctx, l, 20, f.store); err != nil {
		return 0, err
	}
	for i := range n {
		rule := faultfs.Rule{Nth: 1 + int64(f.rng.IntN(120)), Err: vfs.ErrNoSpace, Forever: f.rng.IntN(2) == 0,
			Done: f.rng.IntN(4) == 0, Partial: f.rng.IntN(3) * 100}
		if f.rng.IntN(3) == 0 {
			rule.Err = vfs.ErrIO
		}
		var do func(context.Context, faultfs.Rule) (bool, error)
		switch i % 3 {
		case 0:
			do = f.backUpFailing
		case 1:
			do = f.restoreFailing
		default:
			do = f.pruneFailing
		}
		fired, err := do(ctx, rule)
		if err != nil {
			return 0, fmt.Errorf("%+v: %w", rule, err)
		}
		if fired {
			failed++
		}
	}
	return failed, nil
}

// restoreFailing restores a backup on a failing disk, and once more when the disk is well.
func (f *fileLife) restoreFailing(ctx context.Context, rule faultfs.Rule) (fired bool, err error) {
	b := &f.made[len(f.made)-1]
	disk := memfs.New()
	failing := faultfs.New(disk)
	fault := failing.Add(rule)
	o := filebackup.RestoreOptions{FS: failing, Workers: 1, Keys: b.of.opts.Keys}
	_, errRestore := filebackup.Restore(ctx, f.store, b.id, target, o)
	if fired = fault.Fired() > 0; errRestore != nil && !fired {
		return false, errRestore
	}
	if _, err := disk.Stat(target); err == nil {
		return fired, b.compare(ctx, disk, target) // it is whole, whatever Restore says
	} else if errRestore == nil {
		return fired, err
	}
	return fired, b.check(ctx, f.store, disk, target)
}

// backUpFailing makes a backup to a store on a failing disk, and another when it is well.
func (f *fileLife) backUpFailing(ctx context.Context, rule faultfs.Rule) (fired bool, err error) {
	l := f.lives[0]
	if err := l.act(ctx); err != nil {
		return false, err
	}
	failing := faultfs.New(f.disk)
	fault := failing.Add(rule)
	_, err = filebackup.Backup(ctx, l.db, filebackup.Dir(failing, "/store"), filebackup.Options{FS: l.opts.FS, Temp: "/temp", Workers: 1})
	if fired = fault.Fired() > 0; err != nil && !fired {
		return false, err
	}
	if err := f.verifyAll(ctx); err != nil {
		return fired, err
	}
	if err := f.oneWorker(ctx, l); err != nil {
		return fired, err
	}
	return fired, f.verifyAll(ctx)
}

// pruneFailing deletes old backups from a store on a failing disk. The others stay whole.
func (f *fileLife) pruneFailing(ctx context.Context, rule faultfs.Rule) (fired bool, err error) {
	if rule.Forever, rule.Nth = false, 1+f.rng.Int64N(20); f.rng.IntN(2) == 0 {
		rule.Op = vfs.OpOpen
	}
	failing := faultfs.New(f.disk)
	fault := failing.Add(rule)
	_, err = filebackup.Prune(ctx, filebackup.Dir(failing, "/store"), 2+f.rng.IntN(3))
	if fired = fault.Fired() > 0; err != nil && !fired {
		return false, err
	}
	return fired, errors.Join(f.verifyAll(ctx), f.forgetClaims(ctx))
}

// forgetClaims deletes claims that no process holds. They would lapse after two minutes.
func (f *fileLife) forgetClaims(ctx context.Context) error {
	for o, err := range f.store.List(ctx, "claims/") {
		if err == nil {
			err = f.store.Delete(ctx, o.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyAll verifies all backups in the store.
func (f *fileLife) verifyAll(ctx context.Context) error {
	infos, err := filebackup.List(ctx, f.store)
	if err != nil || len(infos) == 0 {
		return fmt.Errorf("%d backups: %w", len(infos), err)
	}
	for _, info := range infos {
		if _, err := filebackup.Verify(ctx, f.store, info.ID); err != nil {
			return err
		}
	}
	return nil
}
