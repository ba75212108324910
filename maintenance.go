package stoat

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stoatdb/stoat/internal/manual"
)

// CompactOptions say what DB.Compact is to compact.
type CompactOptions struct {
	// Lower and Upper bound the keys: from Lower, inclusive, to Upper, exclusive. nil
	// is no bound.
	Lower, Upper []byte
	// Progress, if it is set, is called before each step, and now and then in a long
	// one, by the goroutine that called Compact. It should be brief: the job waits for
	// it. It must not call DB.Close, nor Compact, Collect, DropPrefix or DropAll, which
	// would wait for themselves.
	Progress func(CompactProgress)
}

// CompactProgress says how far a call of DB.Compact has come.
type CompactProgress struct {
	// Done is how many bytes of tables and value files the call has gone through, and
	// Total an estimate of what that will be in the end. The estimate changes: only a
	// merge finds out how much is garbage.
	Done, Total int64
}

// Compact brings all keys of a range to the last level of the tree. It frees the
// space of everything in the range that is deleted, overwritten or expired, except
// what open transactions still see. It is never needed: the database does in time
// by itself what is worth its cost. It makes a database that will only be read as
// small and fast as it can be.
//
// When Lower and Upper are nil, Compact also collects the garbage of value files,
// and brings scattered values into the order of their keys. Values of a file that
// cannot be read stay where they are. When all else is done, an error tells of them.
//
// When ctx is done, Compact ends soon with its error. What was done until then stays
// done.
func (d *DB) Compact(ctx context.Context, o CompactOptions) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	if o.Lower != nil && o.Upper != nil && string(o.Lower) >= string(o.Upper) {
		return invalid("CompactOptions.Lower is %q, not less than Upper, %q", o.Lower, o.Upper)
	}
	m := manual.Options{Lower: o.Lower, Upper: o.Upper}
	if o.Progress != nil {
		m.Progress = func(done, total int64) { o.Progress(CompactProgress{Done: done, Total: total}) }
	}
	return d.manual.Compact(ctx, m)
}

// Collect frees the garbage of all value files, however little it is. It is never
// needed: the database collects by itself what is worth its cost. Keys that were
// overwritten or deleted lately may keep their values until a merge finds out;
// Compact merges first.
//
// The garbage of a file that cannot be read stays. When that of all others has been
// freed, an error tells of it.
//
// When ctx is done, Collect ends soon with its error. What was done until then stays
// done.
func (d *DB) Collect(ctx context.Context) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	return d.manual.Collect(ctx)
}

// DropPrefix deletes all keys that start with prefix, and frees the space that they
// take before it returns, except what open transactions still see. That follows by
// itself when they have ended. Other transactions go on. A key that is set while
// DropPrefix runs is deleted or not, whichever was committed later.
//
// One commit deletes the keys, with the durability that Options say. An error after
// it, as when ctx is done, leaves them deleted, and background jobs free the space.
func (d *DB) DropPrefix(ctx context.Context, prefix []byte) error {
	return d.drop(ctx, bytes.Clone(prefix), prefixEnd(bytes.Clone(prefix)))
}

// DropAll is DropPrefix for all keys. It takes about the time of a commit and a
// flush: files that hold nothing else are not read.
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
	return d.manual.Free(ctx, lo, hi)
}

// Checkpoint makes a copy of the database in dir, which must not exist: otherwise
// the error is fs.ErrExist of package io/fs. The copy is a database of its own. It
// has exactly the commits up to some moment during the call, and so all that were
// acknowledged before the call.
//
// Files of the database never change, so the copy shares them by hard links. That
// takes little time and no space at first, and other transactions go on. On another
// file system Checkpoint copies the files.
//
// Checkpoint makes the copy under the name dir.tmp and renames it when it is whole
// and durable. So a crash leaves all of it in dir or nothing. The next Checkpoint to
// dir removes what a crash left in dir.tmp. The error is ErrLocked while another
// Checkpoint, of this database or of another, makes a copy there.
//
// What is only in the log has to be written to tables of the database before, so a
// database opened with Options.ReadOnly returns ErrReadOnly.
func (d *DB) Checkpoint(ctx context.Context, dir string) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	ctx, end, err := d.group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	fs, named := d.opts.FS, dir
	if dir, err = absolute(fs, fs.Join(dir)); err != nil { // without a separator at its end
		return fmt.Errorf("checkpoint %s: %w", named, err)
	}
	if err := d.checkpoints.Make(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return nil
}
