package engine

import (
	"context"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/changes"
	"github.com/stoatdb/stoat/internal/checkpoint"
	"github.com/stoatdb/stoat/internal/follow"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

// lockNothing is the lock of a follower.
func (e *Engine) lockNothing() error {
	e.lock = unlocked{}
	return nil
}

// followManifest loads the manifest of a database that another process may write.
func (e *Engine) followManifest() (state manifest.State, err error) {
	e.Manifest, state, err = manifest.Follow(e.o.FS, e.o.Dir, sealer(e.Keys))
	return state, err
}

// recoverLog shows readers what the log has.
func (e *Engine) recoverLog(state *manifest.State) error {
	if !e.o.Follows {
		return e.Commits.Recover(state)
	}
	o := follow.Options{Store: e.Store, Manifest: e.Manifest, Log: e.Commits.LogOptions(), Group: e.Group, Report: e.o.Report,
		HashSeed: state.HashSeed, MemtableSize: e.o.MemtableSize, Every: e.o.FollowEvery,
		Settings: func(table []*manifest.Keyspace) {
			e.Settings.Follow(table, e.Store.OldestSnapshot(), e.Store.Visible())
		}, Spaces: e.Spaces.Followed}
	if e.Keys != nil {
		o.Reload = e.Keys.Reload
	}
	e.Follower = follow.New(o, *state)
	e.Changes.Log = func(after base.SeqNum) changes.Log { return e.Follower.ReadLog(after) }
	e.Changes.Refresh = e.Follower.Refresh
	return e.Follower.Refresh(context.Background())
}

// startFollowing starts the goroutine that follows the writer.
func (e *Engine) startFollowing() {
	if every := e.o.FollowEvery; e.o.Follows && every > 0 {
		e.Group.Run(work.NewWorker(e.exec, time.Second), every, e.Follower.Step)
	}
}

// FilesToCheck returns the newest state with its files, all of which stay until release.
func (e *Engine) FilesToCheck(ctx context.Context) (s manifest.State, files *tree.Files, release func(), err error) {
	options := e.Unmapped
	if e.Follower != nil {
		p, err := e.Follower.Pin(ctx, options.FS)
		if err != nil {
			return s, nil, nil, work.Ended(ctx, err)
		}
		options.FS = p.FS
		return p.State, tree.New(options), p.Close, nil
	}
	slot, s, err := e.Store.HoldFiles()
	return s, tree.New(options), func() { e.Store.Release(slot) }, err
}

// holdAll returns the newest state for a checkpoint.
func (e *Engine) holdAll(ctx context.Context) (s checkpoint.Source, err error) {
	if e.Follower != nil {
		p, err := e.Follower.PinAll(ctx, e.raw)
		if err != nil {
			return s, work.Ended(ctx, err)
		}
		return checkpoint.Source{State: p.State, FS: p.FS, Memtables: p.Memtables, UpTo: p.Visible,
			Sync: e.Follower.Sync, Release: p.Close}, nil
	}
	before := e.Store.State().Keyspaces
	if s, err = e.flushAndHold(ctx); err != nil || !manifest.ChangesKeyspaces(before, s.State.Keyspaces) {
		return s, err
	}
	// Only the manifest has the table of keyspaces. A keyspace that was dropped or changed during
	// the flush must not be so in the copy, which lacks commits before that.
	s.Release()
	err = e.Spaces.Still(func() (err error) {
		s, err = e.flushAndHold(ctx)
		return err
	})
	return s, err
}

// flushAndHold returns the newest state after a flush.
func (e *Engine) flushAndHold(ctx context.Context) (s checkpoint.Source, err error) {
	if err := e.Commits.FlushAll(ctx); err != nil {
		return s, err
	}
	slot, state, err := e.Store.HoldFiles()
	return checkpoint.Source{State: state, FS: e.raw, UpTo: state.FlushedSeq, Release: func() { e.Store.Release(slot) }}, err
}
