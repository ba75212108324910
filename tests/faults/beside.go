package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// options returns the options of a life on a file system.
func (l *faultyLife) options(fs vfs.FS) stoat.Options {
	return testkit.Merging(stoat.Options{FS: fs, Clock: testkit.NewClock(), MemtableSize: testkit.SmallMemtable,
		Compression: stoat.CompressionSmall, Keys: l.scene.keys})
}

// batch commits a batch in pieces. After a failure, the pieces before the failed one are
// there.
func (l *faultyLife) batch() error {
	const size = 20 << 10
	var writes []model.Write
	for i := range 60 {
		writes = append(writes, testkit.SetKey(2*i, strings.Repeat("b", 30*i)))
	}
	pieces := testkit.Pieces(size, writes)
	b := l.db.NewBatch(stoat.BatchOptions{Size: size, Pieces: true})
	err := testkit.PutAll(b, writes)
	if err == nil {
		err = b.Commit(stoat.WithDurability(stoat.Synced))
	}
	l.note("batch: %v", err)
	last := b.CommitVersion()
	for _, piece := range pieces {
		if l.m.Last() >= last {
			l.doubts = append(l.doubts, piece)
			break
		}
		l.doubts = nil
		l.known = l.m.Commit(piece)
	}
	if err != nil {
		return faultOf(err)
	}
	if l.m.Last() != last || len(l.doubts) > 0 {
		return fmt.Errorf("the last piece has version %d, the model is at %d", last, l.m.Last())
	}
	l.durable = last
	return nil
}

// subscribe reads the feed from where it was. It has each commit once, and what it delivers
// is durable.
func (l *faultyLife) subscribe() error {
	if l.fed == l.known {
		return nil
	}
	for c, err := range l.db.Subscribe(context.Background(), feed.Options{After: l.fed}) {
		var gone *feed.GoneError
		if errors.As(err, &gone) {
			l.note("feed: %v", err)
			if gone.After != l.fed || gone.Oldest <= l.fed || gone.Oldest > l.known {
				return fmt.Errorf("at version %d of %d: %+v", l.fed, l.known, *gone)
			}
			l.fed = gone.Oldest
			return nil
		}
		if err == nil && c.Version != l.fed+1 {
			return fmt.Errorf("version %d follows version %d in the feed", c.Version, l.fed)
		}
		if err == nil {
			err = l.compareChanges(&c)
		}
		if err != nil {
			l.note("feed: %v", err)
			return faultOf(err)
		}
		l.fed = c.Version
		l.durable = max(l.durable, l.fed)
		if l.fed == l.known {
			break
		}
	}
	return nil
}

// errWrongChange says that a feed has something that was not written.
var errWrongChange = errors.New("the feed has a wrong change")

// compareChanges compares a commit with the writes of the model.
func (l *faultyLife) compareChanges(c *feed.Commit) error {
	writes := map[string]model.Write{}
	for _, w := range l.m.Writes(c.Version) {
		writes[w.Key] = w
	}
	seen := map[string]bool{}
	for change, err := range c.Changes {
		if err != nil {
			return err
		}
		w, ok := writes[string(change.Key)]
		seen[string(change.Key)] = true
		wrong := !ok
		switch {
		case wrong:
		case change.Kind == feed.Set:
			wrong = w.Deleted || w.Value != string(change.Value)
		case change.Kind == feed.Delete:
			wrong = !w.Deleted
		default:
			wrong = w.Steps == nil && !strings.HasPrefix(w.Key, "sum")
		}
		if wrong {
			return fmt.Errorf("%w: version %d, %s of %q", errWrongChange, c.Version, change.Kind, change.Key)
		}
	}
	if len(seen) != len(writes) {
		return fmt.Errorf("%w: version %d has %d keys, want %d", errWrongChange, c.Version, len(seen), len(writes))
	}
	return nil
}

// follow opens a follower, whose calls may fail as well. It shows all that is acknowledged,
// and nothing wrong.
func (l *faultyLife) follow() error {
	if failed, _ := l.fs.Failed(); failed > 0 && l.rule.Forever {
		return nil // it would only try again and again
	}
	o := l.options(l.fs)
	o.FollowEvery = -1
	f, err := stoat.OpenFollower(testkit.Dir, &o)
	if err != nil {
		l.note("open a follower: %v", err)
		return faultOf(err)
	}
	err = f.View(func(tx stoat.Txn) error {
		v := tx.ReadVersion()
		if v == l.known {
			return errors.Join(testkit.Compare(tx, l.m, testkit.ClockStart), l.checkpoint(f))
		}
		if v < l.known || len(l.doubts) == 0 {
			return fmt.Errorf("the follower shows version %d, want %d", v, l.known)
		}
		return nil
	})
	err = errors.Join(err, f.Close())
	l.note("follow: %v", err)
	return faultOf(err)
}

// checkpoint makes a checkpoint through a follower that has everything, and compares it.
func (l *faultyLife) checkpoint(f *stoat.DB) error {
	if failed, _ := l.fs.Failed(); failed == 0 && l.rule.Sync != vfs.SyncKept {
		return nil // the writer would not learn that a sync of the follower has lost data
	}
	l.copies++
	dir := fmt.Sprint("/copies/", l.copies)
	if err := f.Checkpoint(context.Background(), dir); err != nil {
		return err
	}
	o := l.options(l.fs)
	db, err := stoat.Open(dir, &o)
	if err != nil {
		return err
	}
	err = db.View(func(tx stoat.Txn) error {
		if v := tx.ReadVersion(); v != l.known {
			return fmt.Errorf("the checkpoint has version %d, want %d", v, l.known)
		}
		return testkit.Compare(tx, l.m, testkit.ClockStart)
	})
	return errors.Join(err, db.Close())
}

// backup makes a backup, and at times restores it on a disk that does not fail.
func (l *faultyLife) backup() error {
	var b bytes.Buffer
	info, err := l.db.Backup(context.Background(), &b, stoat.BackupOptions{})
	l.note("backup: %v", err)
	if err != nil {
		return faultOf(err)
	}
	if info.Version != l.known {
		return fmt.Errorf("the backup has version %d, want %d", info.Version, l.known)
	}
	if l.rng.IntN(3) != 0 {
		return nil
	}
	o := l.options(memfs.New())
	if _, err := stoat.Restore(context.Background(), testkit.Dir, stoat.RestoreOptions{Options: &o}, &b); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	db, err := stoat.Open(testkit.Dir, &o)
	if err != nil {
		return fmt.Errorf("open what was restored: %w", err)
	}
	err = db.View(func(tx stoat.Txn) error { return testkit.Compare(tx, l.m, testkit.ClockStart) })
	return errors.Join(err, db.Close())
}
