package kill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A witness follows a database while processes write it and are killed. It never sees part
// of a commit. It never sees the database go back, because a kill takes nothing.
type witness struct {
	version uint64 // the newest one that it has seen
	fed     uint64 // the newest one that its feed has delivered
	tally   *witnessTally
}

// A witnessTally counts what witnesses have done.
type witnessTally struct {
	Looks, Changes, Gone, Backups atomic.Int64
}

// newWitness returns a witness of a new database.
func newWitness(tally *witnessTally) *witness { return &witness{tally: tally} }

// Watch opens followers and looks through them until ended is closed, and then once more.
func (w *witness) Watch(dir string, opts stoat.Options, rng *rand.Rand, ended <-chan struct{}) error {
	for {
		last := false
		select {
		case <-ended:
			last = true
		case <-time.After(time.Duration(rng.IntN(3000)) * time.Microsecond):
		}
		if err := w.open(dir, opts, rng); err != nil {
			return fmt.Errorf("a follower: %w", err)
		}
		if last {
			return nil
		}
	}
}

// open looks through a new follower, if there is a database.
func (w *witness) open(dir string, opts stoat.Options, rng *rand.Rand) (err error) {
	opts.FollowEvery = []time.Duration{-1, time.Millisecond}[rng.IntN(2)]
	f, err := stoat.OpenFollower(dir, &opts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for range 1 + rng.IntN(4) {
		if err := w.look(f, rng); err != nil {
			return err
		}
	}
	if rng.IntN(4) == 0 {
		return w.restore(f, opts, rng)
	}
	return nil
}

// look looks at everything, and reads the feed up to there.
func (w *witness) look(f *stoat.DB, rng *rand.Rand) error {
	if err := f.Refresh(context.Background()); err != nil {
		return fmt.Errorf("refresh: %w", err)
	}
	if err := LookOver(f, rng); err != nil && !errors.Is(err, stoat.ErrNoKeyspace) { // not made yet
		return err
	}
	now := f.Stats().Version
	if now < w.version {
		return fmt.Errorf("the database is at commit %d, after %d", now, w.version)
	}
	w.version = now
	w.tally.Looks.Add(1)
	return w.subscribe(f)
}

// subscribe reads the feed from where the last one ended.
func (w *witness) subscribe(f *stoat.DB) error {
	if w.fed >= w.version {
		return nil
	}
	for c, err := range f.Subscribe(context.Background(), feed.Options{After: w.fed}) {
		var gone *feed.GoneError
		switch {
		case errors.As(err, &gone) && gone.After == w.fed && gone.Oldest > w.fed:
			w.tally.Gone.Add(1)
			w.fed = gone.Oldest
			return nil
		case err != nil:
			return fmt.Errorf("a feed after %d: %w", w.fed, err)
		case c.Version != w.fed+1:
			return fmt.Errorf("version %d follows version %d in a feed", c.Version, w.fed)
		}
		for _, err := range c.Changes {
			if err != nil {
				return fmt.Errorf("the changes of version %d: %w", c.Version, err)
			}
			w.tally.Changes.Add(1)
		}
		if w.fed = c.Version; w.fed >= w.version {
			break
		}
	}
	return nil
}

// restore looks at what a backup of the follower has.
func (w *witness) restore(f *stoat.DB, opts stoat.Options, rng *rand.Rand) error {
	var b bytes.Buffer
	if _, err := f.Backup(context.Background(), &b, stoat.BackupOptions{}); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	opts.FS = memfs.New()
	if _, err := stoat.Restore(context.Background(), testkit.Dir, stoat.RestoreOptions{Options: &opts}, &b); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	w.tally.Backups.Add(1)
	return opening(testkit.Dir, opts, func(db *stoat.DB) error { return LookOver(db, rng) })
}
