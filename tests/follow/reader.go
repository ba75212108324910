package follow

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// A reader is a follower, and what it has shown.
type reader struct {
	db      *stoat.DB
	history *history
	seen    uint64 // the newest version that it has shown
	kept    []*stoat.Snapshot
	reads   int
	dir     string // of the database
	options stoat.Options
	// backups are a full one and those after it, of which last describes the last one.
	backups [][]byte
	last    stoat.BackupInfo
}

// follow opens a follower, which follows by itself or not.
func (h *history) follow(fs vfs.FS, dir string, o stoat.Options, rng *rand.Rand) (*reader, error) {
	o.FS, o.FollowEvery = fs, -1
	if rng.IntN(3) == 0 {
		o.FollowEvery = 1 // as often as it can
	}
	// A follower needs no memtables of the size that the writer has.
	o.MemtableSize, o.MemoryBudget = []int64{64 << 10, 256 << 10}[rng.IntN(2)], testkit.SmallBudget
	db, err := stoat.OpenFollower(dir, &o)
	if err != nil {
		return nil, err
	}
	return &reader{db: db, history: h, dir: dir, options: o}, nil
}

// close ends the follower.
func (r *reader) close() error {
	for _, s := range r.kept {
		s.Close()
	}
	return r.db.Close()
}

// read does something that a user of a follower does, and judges it.
func (r *reader) read(rng *rand.Rand) error {
	r.reads++
	if rng.IntN(100) == 0 {
		_, err := r.db.Check(context.Background(), stoat.CheckOptions{})
		return err
	}
	switch rng.IntN(60) {
	case 0:
		return r.backUp(rng)
	case 1, 2:
		return r.sync()
	case 3, 4:
		return r.checkpoint(rng)
	}
	switch rng.IntN(8) {
	case 0:
		s, err := r.db.Snapshot(stoat.SnapshotOptions{})
		if err != nil {
			return err
		}
		r.kept = append(r.kept, s)
	case 1:
		if len(r.kept) > 0 {
			last := len(r.kept) - 1
			err := r.kept[last].View(func(tx stoat.Txn) error { return r.judge(tx, rng) })
			r.kept[last].Close()
			r.kept = r.kept[:last]
			return err
		}
	case 2:
		return r.look(rng)
	}
	least := r.history.newest()
	if err := r.db.Refresh(context.Background()); err != nil {
		return err
	}
	if err := r.look(rng); err != nil {
		return err
	}
	if r.seen < least {
		return fmt.Errorf("after Refresh, the follower is at version %d of %d", r.seen, least)
	}
	return nil
}

// look judges what the follower shows without a Refresh.
func (r *reader) look(rng *rand.Rand) error {
	return r.db.View(func(tx stoat.Txn) error {
		if v := tx.ReadVersion(); v < r.seen {
			return fmt.Errorf("the follower went back from version %d to %d", r.seen, v)
		}
		r.seen = tx.ReadVersion()
		return r.judge(tx, rng)
	})
}

// judge compares what a transaction of the follower reads with the state of its version.
func (r *reader) judge(tx stoat.Txn, rng *rand.Rand) error {
	version := tx.ReadVersion()
	want, ok := r.history.at(version)
	if !ok {
		return fmt.Errorf("the follower shows version %d, which the writer never had", version)
	}
	for _, name := range []string{"", other, passing} {
		in := tx
		if name != "" {
			ks, err := r.db.Keyspace(name, nil)
			if errors.Is(err, stoat.ErrNoKeyspace) {
				if n := want.count(name); n > 0 && (name != passing || !r.history.dropsAfter(version)) {
					return fmt.Errorf("version %d: no keyspace %s, want %d keys", version, name, n)
				}
				continue
			}
			if err != nil {
				return err
			}
			in = tx.In(ks)
		}
		if err := want.compare(in, name, rng); err != nil {
			if name == passing && r.history.dropsAfter(version) {
				continue // another keyspace has the name now
			}
			return fmt.Errorf("version %d: %w", version, err)
		}
	}
	return nil
}

func (s state) count(space string) (n int) {
	for k := range s {
		if strings.HasPrefix(k, space+"/") {
			n++
		}
	}
	return n
}

// compare compares a keyspace with the state: by a scan, and by looks at some keys.
func (s state) compare(in stoat.Txn, space string, rng *rand.Rand) error {
	n := 0
	it := in.Iterator(stoat.IterOptions{Reverse: rng.IntN(2) == 0})
	defer it.Close()
	for it.Next() {
		n++
		value, err := it.Item().Value()
		if err != nil {
			return err
		}
		if want, ok := s[space+"/"+string(it.Key())]; !ok || want != string(value) {
			return fmt.Errorf("keyspace %q, key %q: got %.60q, want %.60q (%v)", space, it.Key(), value, want, ok)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	if want := s.count(space); n != want {
		return fmt.Errorf("keyspace %q: %d keys, want %d", space, n, want)
	}
	for range 5 {
		key := keyOf(rng.IntN(keysMax))
		want, ok := s[space+"/"+key]
		switch value, err := in.Get([]byte(key)); {
		case errors.Is(err, stoat.ErrNotFound) && !ok:
		case err != nil:
			return fmt.Errorf("keyspace %q, get %q: %w", space, key, err)
		case !ok || want != string(value):
			return fmt.Errorf("keyspace %q, get %q: got %.60q, want %.60q", space, key, value, want)
		}
	}
	return nil
}
