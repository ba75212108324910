package engine

import (
	"context"
	"io"
	"time"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/changes"
	"github.com/stoatdb/stoat/internal/follow"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/work"
)

// lockNothing is the lock of a follower.
func (e *Engine) lockNothing() error {
	e.lock = io.NopCloser(nil) // there is nothing to release
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
