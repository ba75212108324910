package stoat

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/values"
)

// DropPrefix deletes all keys that start with prefix, and gives the space that
// they take back before it returns, except what open transactions still see:
// that follows by itself when they have ended. Others go on reading and
// writing; a key that is set while DropPrefix runs is deleted or not,
// whichever was committed later.
//
// The keys are deleted by one commit, with the durability that Options say.
// An error after it, as when ctx is done, leaves them deleted, and the space is
// given back when there is time for it.
func (d *DB) DropPrefix(ctx context.Context, prefix []byte) error {
	lo := bytes.Clone(prefix)
	return d.drop(ctx, lo, prefixEnd(bytes.Clone(prefix)))
}

// DropAll is DropPrefix for all keys. It takes about the time of a commit and
// a flush: files that hold nothing else are not read.
func (d *DB) DropAll(ctx context.Context) error { return d.drop(ctx, nil, nil) }

func (d *DB) drop(ctx context.Context, lo, hi []byte) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	err := d.UpdateContext(ctx, func(tx *Txn) error { return tx.DeleteRange(lo, hi) })
	if err != nil {
		return err
	}
	if len(lo) == 0 {
		lo = nil // no bound, so that the values go with the keys
	}
	c := compaction{db: d, o: CompactOptions{Lower: lo, Upper: hi}}
	err = d.dropNow(ctx, c)
	if errors.Is(err, ErrNoSpace) {
		err = d.dropNow(ctx, c) // what could be collected may be enough for the rest
	}
	return err
}

// dropNow gives back what keys of a range take that are deleted. When there is no
// room to merge all of them, it collects what the others have left.
func (d *DB) dropNow(ctx context.Context, c compaction) error {
	err := d.reclaim(ctx, "drop", c, (*compaction).sinkAll)
	if err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	return errors.Join(err, d.collectDue(ctx))
}

// collectDue gives back the garbage of value files as far as an idle database
// does.
func (d *DB) collectDue(ctx context.Context) error {
	ctx, end, err := d.beginOperation(ctx)
	if err != nil {
		return err
	}
	defer end()
	// Files that are made from now on are left to the collector, so that it ends
	// while others overwrite.
	c := compaction{db: d, stop: func() error { return interrupted(ctx) }, end: ctx.Done(),
		next: base.FileNum(d.nextFile.Load())}
	err = fault.Guard(func() error {
		return c.each(&d.collecting, func() (bool, error) {
			v := d.manifest.State().Version
			h := d.pickCollection(values.Idle).without(func(choice values.Choice) bool {
				f, ok := v.Value(choice.Num)
				return !ok || f.File >= c.next
			})
			if len(h.now) == 0 {
				return false, nil
			}
			return true, d.collect(h, &c.live, c.stop)
		})
	})
	if err == nil {
		err = c.sweep()
	}
	if err != nil {
		if d.manifest.Err() != nil {
			d.backgroundFailed(err)
		}
		return fmt.Errorf("drop: %w", err)
	}
	return nil
}
