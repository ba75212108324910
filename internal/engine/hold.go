package engine

import (
	"context"

	"github.com/stoatdb/stoat/internal/checkpoint"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/tree"
	"github.com/stoatdb/stoat/internal/work"
)

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
