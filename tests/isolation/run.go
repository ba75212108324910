package isolation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A storeUnderTest shows a database to the workloads of package isolation.
type storeUnderTest struct {
	db *stoat.DB
	// space is the keyspace of all keys; nil is the default keyspace. Other histories
	// on the same disk use other keyspaces.
	space *stoat.Keyspace
	// mixed makes some commits buffered and some asynchronous.
	mixed bool
	turns atomic.Uint64
}

func (s *storeUnderTest) Begin(write bool) (isolation.Tx, error) {
	mode := stoat.ReadOnly
	if write {
		mode = stoat.ReadWrite
	}
	tx, err := s.db.Begin(mode)
	if err != nil {
		return nil, err
	}
	return &txUnderTest{Txn: tx.In(s.space), store: s}, nil
}

type txUnderTest struct {
	stoat.Txn
	store *storeUnderTest
}

func (t *txUnderTest) Get(key string) (isolation.Item, bool, error) {
	item, err := t.Txn.GetItem([]byte(key))
	if errors.Is(err, stoat.ErrNotFound) {
		return isolation.Item{}, false, nil
	}
	if err != nil {
		return isolation.Item{}, false, err
	}
	value, err := item.Value()
	return isolation.Item{Key: key, Value: string(value), Version: item.Version()}, err == nil, err
}

func (t *txUnderTest) Scan(q isolation.Query) (items []isolation.Item, exhausted bool, err error) {
	o := stoat.IterOptions{Reverse: q.Reverse, KeysOnly: q.KeysOnly}
	if q.Lo != "" {
		o.Lower = []byte(q.Lo)
	}
	if q.Hi != "" {
		o.Upper = []byte(q.Hi)
	}
	it := t.Txn.Iterator(o)
	defer it.Close()
	for q.Limit == 0 || len(items) < q.Limit {
		if !it.Next() {
			return items, true, it.Err()
		}
		items = append(items, isolation.Item{
			Key: string(it.Key()), Value: string(it.Value()), Version: it.Item().Version(),
		})
	}
	return items, false, nil
}

func (t *txUnderTest) Set(key, value string) error {
	return t.Txn.Set([]byte(key), []byte(value))
}

func (t *txUnderTest) Delete(key string) error {
	return t.Txn.Delete([]byte(key))
}

func (t *txUnderTest) DeleteRange(lo, hi string) error {
	var end []byte
	if hi != "" {
		end = []byte(hi)
	}
	return t.Txn.DeleteRange([]byte(lo), end)
}

func (t *txUnderTest) Commit() (isolation.Commit, error) {
	d := stoat.Synced
	if t.store.mixed {
		switch t.store.turns.Add(1) % 6 {
		case 0, 1:
			d = stoat.Buffered
		case 2:
			return t.commitAsync()
		}
	}
	err := t.Txn.Commit(stoat.WithDurability(d))
	if errors.Is(err, stoat.ErrConflict) {
		return isolation.Commit{Conflict: true}, nil
	}
	return isolation.Commit{Version: t.Txn.CommitVersion()}, err
}

func (t *txUnderTest) commitAsync() (isolation.Commit, error) {
	done := make(chan error, 1)
	var c isolation.Commit
	t.Txn.CommitAsync(func(version uint64, err error) {
		c.Version = version
		done <- err
	})
	err := <-done
	if errors.Is(err, stoat.ErrConflict) {
		return isolation.Commit{Conflict: true}, nil
	}
	return c, err
}

// A tally counts what histories met.
type tally struct{ conflicts, flushes, compactions, collections atomic.Int64 }

func (y *tally) add(s stoat.Stats) {
	y.flushes.Add(s.Flushes)
	y.compactions.Add(s.Compactions)
	y.collections.Add(s.Collections)
}

// historiesPerDisk is how many histories follow each other on one disk.
const historiesPerDisk = 5

func historiesOf(seed uint64, n int, met *tally) error {
	rng := rand.New(rand.NewPCG(seed, 0x150))
	opts := stoat.Options{FS: memfs.New()}
	if rng.IntN(2) == 0 {
		// What is padded lies apart, and all moves on while it is read.
		opts.MemtableSize, opts.ValueThreshold, opts.LargeValueThreshold = testkit.SmallMemtable, 64, 512
	}
	db, err := stoat.Open(testkit.Dir, &opts)
	if err != nil {
		return err
	}
	for i := range n {
		store := &storeUnderTest{db: db, mixed: rng.IntN(2) == 0}
		if store.space, err = anySpace(db, rng); err != nil {
			return errors.Join(err, db.Close())
		}
		stop := func() error { return nil }
		if opts.MemtableSize == testkit.SmallMemtable && rng.IntN(2) == 0 {
			stop = tidying(db)
		}
		report, err := oneHistory(store, seed+uint64(i))
		err = errors.Join(err, stop())
		met.conflicts.Add(int64(report.Conflicted))
		if err != nil {
			return errors.Join(fmt.Errorf("history %d: %w", seed+uint64(i), err), db.Close())
		}
		if rng.IntN(4) != 0 {
			continue
		}
		met.add(db.Stats())
		if db, err = cutAndOpen(db, &opts, rng); err != nil {
			return fmt.Errorf("after history %d: %w", seed+uint64(i), err)
		}
	}
	met.add(db.Stats())
	return db.Close()
}

// RunHistories runs and checks as many histories as follow each other on one disk.
func RunHistories(seed uint64) error {
	return historiesOf(seed, historiesPerDisk, new(tally))
}

// tidying compacts and collects, over and over, until it is stopped.
func tidying(db *stoat.DB) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		var err error
		for turn := 0; err == nil && ctx.Err() == nil; turn++ {
			if turn%2 == 0 {
				err = db.Compact(ctx, stoat.CompactOptions{})
			} else {
				err = db.Collect(ctx)
			}
		}
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		ended <- err
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

func oneHistory(store *storeUnderTest, seed uint64) (isolation.Report, error) {
	base, initial, err := stateOf(store)
	if err != nil {
		return isolation.Report{}, err
	}
	h, err := isolation.Run(store, isolation.RandomConfig(seed), base, initial)
	if err != nil {
		return isolation.Report{}, err
	}
	report, err := isolation.Check(h)
	if err == nil && len(report.Spurious) > 0 {
		err = fmt.Errorf("a conflict without a reason: %v", report.Spurious[0])
	}
	return report, err
}

// spaces are the keyspaces of histories, in the order of their keys. "" is the default
// keyspace.
var spaces = []string{"", "first", "middle", "last"}

// anySpace returns one of the keyspaces. It creates them on an empty disk.
func anySpace(db *stoat.DB, rng *rand.Rand) (chosen *stoat.Keyspace, err error) {
	want := spaces[rng.IntN(len(spaces))]
	for _, name := range spaces[1:] {
		ks, err := db.Keyspace(name, nil)
		if err != nil {
			return nil, err
		}
		if name == want {
			chosen = ks
		}
	}
	return chosen, nil
}

// stateOf reads everything in a database without writers.
func stateOf(s *storeUnderTest) (version uint64, items []isolation.Item, err error) {
	err = s.db.View(func(tx stoat.Txn) error {
		version = tx.ReadVersion()
		items, _, err = (&txUnderTest{Txn: tx.In(s.space)}).Scan(isolation.Query{})
		return err
	})
	return version, items, err
}

// cutAndOpen cuts the power and opens the database again.
func cutAndOpen(db *stoat.DB, opts *stoat.Options, rng *rand.Rand) (*stoat.DB, error) {
	opts.FS = testkit.RandomCut(rng)(opts.FS.(*memfs.FS))
	if err := db.Close(); err != nil {
		return nil, err
	}
	return stoat.Open(testkit.Dir, opts)
}

// PlayApplication runs one of isolation.Applications on a database of its own and
// returns how many conflicts it met.
func PlayApplication(application int, seed uint64) (conflicts int, err error) {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
	if err != nil {
		return 0, err
	}
	store := &storeUnderTest{db: db, mixed: seed%2 == 0}
	conflicts, err = isolation.Applications()[application].Play(store, 8, 40, seed)
	return conflicts, errors.Join(err, db.Close())
}
