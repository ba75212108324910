package stoat

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/engine"
	"github.com/stoatdb/stoat/internal/work"
)

// followEveryDefault is the default of Options.FollowEvery.
const followEveryDefault = 10 * time.Millisecond

// OpenFollower opens the database in the directory dir for reading, while another process
// may have it open, write it, close it and open it again. opts may be nil.
//
// The result is a read-only database that follows: it shows new commits after
// Options.FollowEvery, or after DB.Refresh. Each transaction and each snapshot has whole
// commits only, up to its ReadVersion. All ways to read work, also DB.Subscribe and
// DB.Checkpoint, and writes return ErrReadOnly. Options.ReadOnly, in contrast, keeps writers
// out.
//
// It needs Options.Keys for an encrypted database, and Options.MergeFunctions to read merged
// keys. Without a database, OpenFollower returns fs.ErrNotExist of package io/fs.
//
// A follower takes no lock, and writes nothing to the directory. The writer neither knows
// of it nor waits for it. A transaction of the follower may read on after the writer has
// deleted the files. Their space becomes free when the follower no longer needs them. Each
// value file takes a file descriptor. The follower keeps in memory what the writer has not
// written to tables yet, even if that exceeds Options.MemoryBudget.
//
// A follower sees a commit once the writer has written it to the log. That may be a moment
// before Commit returns, and before the commit is durable. After a power cut or a failed
// disk, the writer may have lost such commits. A follower that shows them goes back to what
// the next writer has, and reports a Warning.
func OpenFollower(dir string, opts *Options) (*DB, error) {
	o := opts.withDefaults()
	o.ReadOnly = true
	return open(dir, o, engine.Options{Follows: true})
}

// Refresh makes later transactions of a follower see all that the writer had committed
// before the call. It returns the error of ctx when ctx is done before that, and ErrStale
// if the follower cannot follow any more. A database that OpenFollower did not open is
// always fresh.
func (d *DB) Refresh(ctx context.Context) error {
	if d.engine.Follower == nil {
		return nil
	}
	return d.follow(ctx, "refresh", d.engine.Follower.Refresh)
}

// follow calls a method of the follower, which name names in errors.
func (d *DB) follow(ctx context.Context, name string, call func(ctx context.Context) error) error {
	ctx, end, err := d.engine.Group.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	err = call(ctx)
	if err == nil {
		return nil
	}
	if err = work.Ended(ctx, err); ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}
