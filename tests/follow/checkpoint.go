package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/vfs"
)

// checkpoint makes a copy of the database through a follower, judges the copy, and removes
// it.
func (r *reader) checkpoint(rng *rand.Rand) error {
	ctx, fs := context.Background(), r.options.FS
	dir := fmt.Sprintf("%s-copy-%x", r.dir, rng.Uint64())
	least := r.history.newest()
	if err := r.db.Checkpoint(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	o := r.options
	if rng.IntN(2) == 0 { // operands of merges need the function only when they are read
		o.MergeFunctions = nil
		db, err := stoat.Open(dir, &o)
		if err == nil {
			err = errors.Join(db.Compact(ctx, stoat.CompactOptions{}), db.Close())
		}
		if err != nil {
			return fmt.Errorf("a checkpoint without the merge function: %w", err)
		}
		o = r.options
	}
	db, err := stoat.Open(dir, &o)
	if err != nil {
		return fmt.Errorf("open a checkpoint: %w", err)
	}
	other := reader{db: db, history: r.history, seen: least}
	if err := other.look(rng); err != nil {
		return errors.Join(fmt.Errorf("checkpoint: %w", err), db.Close())
	}
	r.history.keep(other.seen)
	_, err = db.Check(ctx, stoat.CheckOptions{})
	return errors.Join(err, other.close(), removeAll(fs, dir))
}

// removeAll removes the directory of a database.
func removeAll(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	for _, name := range names {
		err = errors.Join(err, fs.Remove(fs.Join(dir, name)))
	}
	return errors.Join(err, fs.Remove(dir))
}
