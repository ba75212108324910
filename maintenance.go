package stoat

import (
	"context"
	"fmt"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manual"
	"github.com/stoatdb/stoat/internal/transaction"
)

// CompactOptions say what DB.Compact compacts.
type CompactOptions struct {
	// Keyspace is the keyspace to compact. With nil, Compact compacts the default
	// keyspace, or all keyspaces if Lower and Upper are nil, too.
	Keyspace *Keyspace
	// Lower (inclusive) and Upper (exclusive) bound the keys. nil is no bound. Compact
	// returns ErrInvalid unless Lower is below Upper.
	Lower, Upper []byte
	// Progress, if it is set, reports progress before each step, and now and then
	// during a long step. The goroutine that called Compact calls it, and the job
	// waits for it, so it should be brief. It must not call DB.Close, Compact,
	// Collect, DropPrefix or DropAll: they would wait for the job that waits for
	// Progress.
	Progress func(CompactProgress)
}

// CompactProgress is the progress of a call of DB.Compact.
type CompactProgress struct {
	// Done is how many bytes of tables and value files the call has processed.
	// Total estimates what Done will be at the end, in bytes. The estimate changes,
	// because only a compaction finds out how much is garbage.
	Done, Total int64
}

// Compact moves all keys of a range to the last level of the tree. It drops all deleted,
// overwritten and expired versions in the range, except what open transactions still see. It
// rewrites all tables of the range that have keys of a keyspace with a filter, see Filter.
//
// No database needs the call: background jobs do the same work where it is worth
// its cost. Compact makes a database that will only be read as small and fast as
// possible.
//
// Without Keyspace, Lower and Upper, Compact also collects the garbage of value files
// and orders scattered values by their keys. With one of them, dropped values in value files
// stay as garbage. Background jobs or Collect free it. Values of a file that cannot be read
// stay where they are. Compact does all other work first, and then returns an error
// about them.
//
// When ctx is done, Compact soon returns the error of ctx. Finished work stays
// done.
func (d *DB) Compact(ctx context.Context, o CompactOptions) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	if o.Upper != nil && string(o.Lower) >= string(o.Upper) {
		return base.Invalid("CompactOptions.Lower is %.80q, not less than Upper, %.80q", o.Lower, o.Upper)
	}
	if o.Keyspace != nil {
		if err := o.Keyspace.inner().Usable(&d.engine.Transactions); err != nil {
			return err
		}
	}
	var m manual.Options
	if o.Keyspace != nil || o.Lower != nil || o.Upper != nil {
		m.Lower, m.Upper = o.Keyspace.inner().Range(o.Lower, o.Upper)
	}
	if o.Progress != nil {
		m.Progress = func(done, total int64) { o.Progress(CompactProgress{Done: done, Total: total}) }
	}
	return d.engine.Manual.Compact(ctx, m)
}

// A RangeEstimate estimates what a range of keys has.
type RangeEstimate struct {
	// Keys is the number of keys. Versions that no compaction has dropped yet count, too.
	Keys int64
	// Bytes is the size of their keys and values in tables, value files and memory.
	Bytes int64
}

// EstimateRange returns about what the keys of ks from lo (inclusive) to hi (exclusive)
// have. nil is no bound, and a nil ks is the default keyspace. It reads only the indexes of
// the tables at both bounds, and a few blocks where keys have long common beginnings. So it
// is fast for any range. The estimate is good to about the size of a block of each table,
// and too high where keys were changed lately.
func (d *DB) EstimateRange(ks *Keyspace, lo, hi []byte) (RangeEstimate, error) {
	e, err := d.engine.Transactions.Estimate(ks.inner(), lo, hi)
	return RangeEstimate(e), err
}

// SplitRange returns ascending keys that split the range of EstimateRange into n parts of
// about as many bytes each. It reads as little. It returns fewer than n-1 keys if the
// range has too little data. The result need not be keys of the database. An n below 1 is
// ErrInvalid.
func (d *DB) SplitRange(ks *Keyspace, lo, hi []byte, n int) ([][]byte, error) {
	return d.engine.Transactions.Split(ks.inner(), lo, hi, n)
}

// Collect frees all garbage of value files, even small amounts. No database needs
// the call: background jobs collect what is worth its cost. Values of keys that
// were overwritten or deleted lately may stay until a compaction finds them. Compact
// finds them first.
//
// The garbage of a file that cannot be read stays. Collect frees all other garbage
// first, and then returns an error about that file.
//
// When ctx is done, Collect soon returns the error of ctx. Finished work stays
// done.
func (d *DB) Collect(ctx context.Context) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	return d.engine.Manual.Collect(ctx)
}

// DropPrefix deletes all keys of the default keyspace that start with prefix. Before it
// returns, it frees the space of the keys, except what open transactions still see. Background
// jobs free that when those transactions have ended. Other transactions go on. A key that is
// set while DropPrefix runs is deleted only if its commit came first.
//
// The space of values in value files may stay, until a background job or Collect frees it.
// It stays if all value files together have little garbage. It also stays in a file of whose
// garbage the call has made less than a quarter.
//
// One commit deletes the keys, with the durability of Options. If ctx ends after
// the commit, or another error follows it, the keys stay deleted. Background jobs then
// free the space. A prefix that is longer than any key is ErrKeyTooLarge.
func (d *DB) DropPrefix(ctx context.Context, prefix []byte) error { return d.drop(ctx, nil, prefix) }

// DropAll is DropPrefix for all keys of all keyspaces. The keyspaces stay, with their
// settings. DropAll deletes whole files without reading them. So it takes about the time of
// a commit and a flush.
func (d *DB) DropAll(ctx context.Context) error {
	return d.dropRange(ctx, nil, nil, nil)
}

// drop drops the keys of a keyspace that start with prefix.
func (d *DB) drop(ctx context.Context, ks *Keyspace, prefix []byte) error {
	if err := ks.inner().CheckPrefix(prefix); err != nil {
		return err
	}
	lower, upper := ks.inner().PrefixRange(prefix)
	return d.dropRange(ctx, ks.inner(), lower, upper)
}

// dropRange drops a range of stored keys. A range of other keyspaces than ks may only
// be all keys.
func (d *DB) dropRange(ctx context.Context, ks *transaction.Keyspace, lo, hi []byte) error {
	if d.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := d.UpdateContext(ctx, func(tx Txn) error { return tx.t.Drop(ks, lo, hi) }); err != nil {
		return err
	}
	if len(lo) == 0 {
		lo = nil // no bound, so that Free frees the values with the keys
	}
	return d.engine.Manual.Free(ctx, lo, hi)
}

// Checkpoint makes a copy of the database in dir. If dir exists, the error is
// fs.ErrExist of package io/fs. The copy is an independent database. It has exactly
// the commits up to some moment during the call, so it has all commits that were
// acknowledged before the call.
//
// The copy shares files with the database by hard links, because files never
// change. That takes little time and at first no space, and other transactions go
// on. When dir is on another file system, Checkpoint copies the files.
//
// Checkpoint builds the copy in dir.tmp, and renames dir.tmp once it is complete
// and durable. After a crash, dir has the whole copy or does not exist. The next
// Checkpoint to dir removes what a crash left in dir.tmp. The error is ErrLocked
// while another Checkpoint, of any database, makes a copy there.
//
// Checkpoint first writes the transactions of the log to tables of the database. A
// database opened with Options.ReadOnly therefore returns ErrReadOnly. A follower writes
// them to tables of the copy only. It refreshes first, and makes durable in the database
// what the copy has. The writer neither knows nor waits.
func (d *DB) Checkpoint(ctx context.Context, dir string) error {
	if d.opts.ReadOnly && d.engine.Follower == nil {
		return ErrReadOnly
	}
	ctx, end, err := d.engine.Group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	fs, named := d.opts.FS, dir
	if dir, err = absolute(fs, fs.Join(dir)); err != nil { // Join drops a trailing separator
		return fmt.Errorf("checkpoint %s: %w", named, err)
	}
	if err := d.engine.Checkpoints.Make(ctx, dir); err != nil {
		return fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return nil
}
