package backup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A cut is the disk at a boundary of a restore.
type cut struct {
	disk *memfs.FS
	op   string
}

// crash cuts the power here in the i-th way, and returns what that leaves. how tells of it.
func (c *cut) crash(i int, rng *rand.Rand) (disk *memfs.FS, how string) {
	kinds := memfs.CrashKinds()
	kind, seed := kinds[i%len(kinds)], rng.Uint64()
	return c.disk.Crash(kind, rand.New(rand.NewPCG(seed, 1))), fmt.Sprintf("before %s, crash %q, crash seed %d", c.op, kind, seed)
}

// cutsOf returns the disk before each call by which do changes it, and how many calls wrote
// to files.
func cutsOf(disk *memfs.FS, do func() error) (cuts []cut, writes int, err error) {
	stop := testkit.States(disk)
	err = do()
	for _, s := range stop() {
		if s.Op.Kind == vfs.OpWrite {
			writes++
		}
		cuts = append(cuts, cut{s.Disk, s.Op.String()})
	}
	return append(cuts, cut{disk.Clone(), "the end"}), writes, err
}

// resumeAll cuts the power n times at one of the cuts. goOn completes the restore, and
// returns how many calls wrote to files. resumed is how many restores went on where the
// first one, of so many writes, had stopped.
func resumeAll(rng *rand.Rand, cuts []cut, writes, n int, goOn func(*memfs.FS) (int, error)) (resumed int, err error) {
	for i := range n {
		disk, how := cuts[rng.IntN(len(cuts))].crash(i, rng)
		again, err := goOn(disk)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", how, err)
		}
		if again > 0 && again < writes*9/10 {
			resumed++
		}
	}
	return resumed, nil
}

const target = "/new/restored"

// commitAfterKills kills a restore at each cut at which the directory has its name. A writer
// with options o opens the directory then. It must remove the journal, and its commit must
// survive a power cut.
func commitAfterKills(cuts []cut, o stoat.Options) error {
	kills := 0
	for _, c := range cuts {
		disk := c.disk.Clone()
		if _, err := disk.Stat(target); err != nil {
			continue
		}
		kills++
		if err := commitAfterKill(disk, o); err != nil {
			return fmt.Errorf("killed before %s: %w", c.op, err)
		}
	}
	if kills < 2 {
		return fmt.Errorf("the directory has its name at %d cuts, want it before the sync and at the end", kills)
	}
	return nil
}

func commitAfterKill(disk *memfs.FS, o stoat.Options) error {
	o.FS = disk
	db, err := stoat.Open(target, &o)
	if err != nil {
		return err
	}
	key := []byte("committed after the kill")
	err = db.Update(func(tx stoat.Txn) error { return tx.Set(key, nil) }, stoat.WithDurability(stoat.Synced))
	left := disk.Crash(memfs.KeepNone, nil)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	names, err := disk.List(target)
	if err == nil && slices.Contains(names, "RESTORE") {
		err = errors.New("the journal of the restore is left")
	}
	if err != nil {
		return err
	}
	o.FS, o.MustExist = left, true
	if db, err = stoat.Open(target, &o); err != nil {
		return fmt.Errorf("after a power cut: %w", err)
	}
	err = db.View(func(tx stoat.Txn) error { _, err := tx.Get(key); return err })
	return errors.Join(err, db.Close())
}

// RunCrashes restores a chain and cuts the power at up to n boundaries. After each cut, the
// directory must hold the whole database or not exist, and another restore must complete
// it. It returns how many restores went on where the first one had stopped.
func RunCrashes(seed uint64, n int) (resumed int, err error) {
	l, err := newLife(seed)
	if err != nil {
		return 0, err
	}
	ctx := context.Background()
	for range 3 {
		for range 60 {
			if err := l.act(ctx); err != nil {
				return 0, err
			}
		}
		if err := l.fill(); err != nil {
			return 0, err
		}
		if err := l.backUp(ctx); err != nil {
			return 0, err
		}
	}
	if err := l.db.Close(); err != nil {
		return 0, err
	}
	disk := memfs.New()
	o := l.other()
	o.FS = disk
	cuts, writes, err := cutsOf(disk, func() error {
		_, err := stoat.Restore(ctx, target, stoat.RestoreOptions{Options: o}, l.readers(len(l.chain))...)
		return err
	})
	if err == nil {
		err = commitAfterKills(cuts, *o)
	}
	if err != nil {
		return 0, err
	}
	return resumeAll(l.rng, cuts, writes, n, func(disk *memfs.FS) (int, error) { return l.goOn(ctx, disk) })
}

// fill adds enough for several pieces of a restore.
func (l *life) fill() error {
	for range 8 {
		err := l.db.Update(func(tx stoat.Txn) error {
			for range 200 {
				key := fmt.Appendf(nil, "fill%06d", l.rng.IntN(5000))
				if err := tx.Set(key, []byte(testkit.RandomValue(l.rng, 600))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// restoreFewer restores all backups but the last one where a power cut has left a restore of
// all. It must not take over what that has done.
func (l *life) restoreFewer(ctx context.Context, disk *memfs.FS) error {
	l.opts.FS = disk
	n, now := len(l.chain)-1, l.clock.Ms.Load()
	defer l.clock.Ms.Store(now)
	l.clock.Ms.Store(l.times[n-1]) // values of the dump have expired since
	_, err := stoat.Restore(ctx, target, stoat.RestoreOptions{Options: l.other()}, l.readers(n)...)
	switch {
	case err == nil:
		err = l.compare(ctx, target, l.dumps[n-1])
	case errors.Is(err, stoat.ErrBackup), errors.Is(err, vfs.ErrExist):
		return nil // the user must remove the one that was begun, or it is complete
	}
	if err != nil {
		return fmt.Errorf("restore of fewer backups: %w", err)
	}
	return nil
}

// goOn checks what a power cut left, and restores again if that is needed. It returns how
// many calls wrote to files.
func (l *life) goOn(ctx context.Context, disk *memfs.FS) (writes int, err error) {
	was := l.opts
	defer func() { l.opts = was }()
	l.opts.FS = disk
	last := l.dumps[len(l.dumps)-1]
	if db, err := stoat.Open(target+".restore", &stoat.Options{FS: disk, Clock: l.clock, Keys: l.opts.Keys, ReadOnly: true}); err == nil {
		// It is complete but for its name.
		err := db.Close()
		l.opts.FS = disk.Clone()
		if err == nil {
			err = l.compare(ctx, target+".restore", last)
		}
		if err != nil {
			return 0, fmt.Errorf("an unfinished restore can be opened: %w", err)
		}
		l.opts.FS = disk
	}
	if l.rng.IntN(3) == 0 {
		err := l.restoreFewer(ctx, disk.Clone())
		if l.opts.FS = disk; err != nil {
			return 0, err
		}
	}
	_, err = disk.Stat(target)
	switch {
	case errors.Is(err, vfs.ErrNotExist):
		stop := testkit.Writes(disk)
		_, err = stoat.Restore(ctx, target, stoat.RestoreOptions{Options: l.other()}, l.readers(len(l.chain))...)
		writes = stop()
		if err != nil {
			return 0, fmt.Errorf("restore again: %w", err)
		}
	case err != nil:
		return 0, err
	}
	return writes, l.compare(ctx, target, last)
}
