package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RunBeside reads a feed beside several writers, each of which commits so many
// transactions.
func RunBeside(seed uint64, commits int) (err error) {
	const writers = 3
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New(), MemtableSize: testkit.SmallMemtable, ChangeRetention: 64 << 20,
		MergeFunction: tail.Name(), MergeFunctions: []stoat.MergeFunction{tail}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	other, err := db.Keyspace("other", nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	read := make(chan error, 2)
	var feeds [2]map[uint64]string
	for i := range feeds {
		go func() {
			feeds[i] = map[uint64]string{}
			read <- collect(ctx, db, feed.Options{Buffered: i == 0}, feeds[i], writers*uint64(commits))
		}()
	}
	var mu sync.Mutex
	written := map[uint64]string{}
	err = testkit.Concurrently(writers, func(_ int, rng *rand.Rand) error {
		return testkit.Times(commits, func(int) error {
			changes := append(draw(rng), feed.Change{Kind: feed.Set, Key: []byte("always")})
			tx, err := db.Begin(stoat.ReadWrite)
			if err != nil {
				return err
			}
			defer tx.Discard()
			if err = write(tx, other, changes); err == nil {
				err = tx.Commit(stoat.WithDurability(testkit.RandomDurability(rng)))
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				written[tx.CommitVersion()] = render(changes)
			}
			return err
		})
	}, seed)
	if err != nil {
		return err
	}
	for range feeds {
		if err := <-read; err != nil {
			return err
		}
	}
	for version, want := range written {
		for i := range feeds {
			if got := feeds[i][version]; got != want {
				return fmt.Errorf("version %d has in feed %d\n%s\nwant\n%s", version, i, got, want)
			}
		}
	}
	return nil
}

// collect reads a feed up to a version into commits.
func collect(ctx context.Context, db *stoat.DB, o feed.Options, commits map[uint64]string, until uint64) error {
	last := uint64(0)
	for c, err := range db.Subscribe(ctx, o) {
		if err != nil {
			return err
		}
		if c.Version != last+1 {
			return fmt.Errorf("version %d follows version %d in the feed", c.Version, last)
		}
		last = c.Version
		var changes []feed.Change
		for ch, err := range c.Changes {
			if err != nil {
				return err
			}
			changes = append(changes, copied(ch))
		}
		commits[c.Version] = render(changes)
		if last == until {
			break
		}
	}
	return nil
}
