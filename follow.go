package stoat

import (
	"context"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/internal/follow"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
)

// followEveryDefault is the default of Options.FollowEvery.
const followEveryDefault = 10 * time.Millisecond

// OpenFollower opens the database in the directory dir for reading, while another process
// may have it open, write it, close it and open it again. opts may be nil.
//
// The result is a read-only database that follows: it shows new commits after
// Options.FollowEvery, or after DB.Refresh. Each transaction and each snapshot has whole
// commits only, up to its ReadVersion. All ways to read work, and writes return
// ErrReadOnly. Options.ReadOnly, in contrast, keeps writers out.
//
// A follower takes no lock and writes nothing. The writer neither knows of it nor waits for
// it. What a transaction of the follower reads stays readable, although the writer deletes
// the files; their space is free when the follower does not need them any more. Each value
// file takes a file descriptor.
//
// A follower sees a commit once the writer has written it to the log, which may be a moment
// before Commit returns, and before it is durable. After a power cut or a failed disk, the
// writer may have lost such commits. A follower that shows them goes back to what the next
// writer has, and reports a Warning.
func OpenFollower(dir string, opts *Options) (*DB, error) {
	d := &DB{opts: opts.withDefaults(), exec: new(work.Executor)}
	d.opts.ReadOnly, d.opts.follows = true, true
	if err := d.openIn(dir); err != nil {
		return nil, err
	}
	return d, nil
}

// Refresh makes later transactions of a follower see all that the writer had committed
// before the call. It returns the error of ctx when ctx is done before that, and ErrStale
// if the follower cannot follow any more. A database that OpenFollower did not open is
// always fresh.
func (d *DB) Refresh(ctx context.Context) error {
	if d.follower == nil {
		return nil
	}
	ctx, end, err := d.group.Begin(work.Given(ctx))
	if err != nil {
		return err
	}
	defer end()
	if err := d.follower.Refresh(ctx); err != nil {
		if e := work.Interrupted(ctx); e != nil {
			return e
		}
		return fmt.Errorf("refresh: %w", err)
	}
	return nil
}

// lockNothing is the lock of a follower.
func lockNothing(d *DB) func() error {
	return func() error {
		d.lock = unlocked{}
		return nil
	}
}

// followManifest loads the manifest of a database that another process may write.
func followManifest(d *DB) func() (manifest.State, error) {
	return func() (state manifest.State, err error) {
		d.manifest, state, err = manifest.Follow(d.opts.FS, d.dir, sealer(d.keys))
		return state, err
	}
}

// recoverLog shows readers what the log has.
func recoverLog(d *DB, state *manifest.State) error {
	if !d.opts.follows {
		return d.commits.Recover(state)
	}
	o := follow.Options{Store: d.store, Manifest: d.manifest, Log: d.commits.LogOptions(), Group: d.group, Report: d.emit,
		HashSeed: d.hashSeed, MemtableSize: d.opts.MemtableSize, Every: d.opts.FollowEvery,
		Settings: d.settings.Set, Spaces: d.spaces.Followed}
	if d.keys != nil {
		o.Reload = d.keys.Reload
	}
	d.follower = follow.New(o, *state)
	return d.follower.Refresh(context.Background())
}
