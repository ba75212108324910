package isolation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync/atomic"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/isolation"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/merge"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A tally counts what histories met.
type tally struct {
	conflicts, flushes, compactions, collections atomic.Int64
	// merges and times count the conflicts of histories with merges and with timestamps.
	merges, times atomic.Int64
	filtered      atomic.Int64 // values that filters rewrote
}

// met adds what a history met.
func (y *tally) met(cfg *isolation.Config, conflicts int) {
	y.conflicts.Add(int64(conflicts))
	if cfg.Times > 0 {
		y.times.Add(int64(conflicts))
	} else {
		y.merges.Add(int64(conflicts))
	}
}

func (y *tally) add(s stoat.Stats) {
	y.flushes.Add(s.Flushes)
	y.compactions.Add(s.Compactions)
	y.collections.Add(s.Collections)
}

// historiesPerDisk is how many histories follow each other on one disk.
const historiesPerDisk = 5

func historiesOf(seed uint64, n int, met *tally) error {
	rng := rand.New(rand.NewPCG(seed, 0x150))
	opts := stoat.Options{FS: memfs.New(), MergeFunction: listing{}.Name(),
		MergeFunctions: []stoat.MergeFunction{listing{}, merge.Append, merge.Counter},
		Filters:        []stoat.Filter{spelling{&met.filtered}}}
	if rng.IntN(2) == 0 {
		// What is padded lies apart, and all moves on while it is read.
		opts.MemtableSize, opts.ValueThreshold, opts.LargeValueThreshold = testkit.SmallMemtable, 64, 512
	}
	if seed%3 == 0 {
		opts.Keys, opts.MemoryBudget = testkit.Keys, testkit.SmallBudget
	}
	opts.Compression = testkit.Compressions[seed/3%3]
	var p past
	db, err := stoat.Open(testkit.Dir, &opts)
	if err != nil {
		return err
	}
	for i := range n {
		cfg := isolation.RandomConfig(seed + uint64(i))
		store, err := storeFor(&cfg, db, rng)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		stop := func() error { return nil }
		if opts.MemtableSize == testkit.SmallMemtable && rng.IntN(2) == 0 {
			stop = tidying(db)
		}
		h, report, err := oneHistory(store, cfg)
		err = errors.Join(err, stop())
		p.played = append(p.played, played{store, h})
		met.met(&cfg, report.Conflicted)
		if err != nil {
			return errors.Join(fmt.Errorf("history %d: %w", seed+uint64(i), err), db.Close())
		}
		if rng.IntN(4) != 0 {
			continue
		}
		met.add(db.Stats())
		last, err := testkit.VersionOf(db)
		if err != nil {
			return errors.Join(err, db.Close())
		}
		if db, err = cutAndOpen(db, &opts, rng); err != nil {
			return fmt.Errorf("after history %d: %w", seed+uint64(i), err)
		}
		if err := p.check(db, last); err != nil {
			return errors.Join(fmt.Errorf("a power cut after history %d: %w", seed+uint64(i), err), db.Close())
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

func oneHistory(store *storeUnderTest, cfg isolation.Config) (*isolation.History, isolation.Report, error) {
	base, initial, err := stateOf(store)
	if err != nil {
		return nil, isolation.Report{}, err
	}
	var driven isolation.Store = store
	if cfg.Seed%3 > 0 {
		driven = &updatingStore{storeUnderTest: store}
	}
	h, err := isolation.Run(driven, cfg, base, initial)
	if err != nil {
		return h, isolation.Report{}, err
	}
	report, err := isolation.Check(h)
	if err == nil && len(report.Spurious) > 0 {
		err = fmt.Errorf("a conflict without a reason: %v", report.Spurious[0])
	}
	return h, report, err
}

// listing is merge.Append without a way to combine operands.
type listing struct{}

// Name implements stoat.MergeFunction.
func (listing) Name() string { return "listing" }

// Merge implements stoat.MergeFunction.
func (listing) Merge(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
	return merge.Append.Merge(dst, key, existing, operands)
}

// A home is a keyspace of histories. The one without a name is the default keyspace,
// whose operands are appended as well.
type home struct {
	name string
	o    stoat.KeyspaceOptions
}

// discarding is a keyspace whose discard point rises.
const discarding = "discarding"

// homes are the keyspaces of histories, in the order of their keys.
var homes = []home{
	{name: ""},
	{"first", stoat.KeyspaceOptions{MergeFunction: merge.Append.Name(), Filter: spelling{}.Name()}},
	{"counters", stoat.KeyspaceOptions{MergeFunction: merge.Counter.Name()}},
	{"middle", stoat.KeyspaceOptions{MergeFunction: listing{}.Name()}},
	{"timed", stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked}},
	{discarding, stoat.KeyspaceOptions{Timestamps: stoat.TimestampsChecked}},
	{"last", stoat.KeyspaceOptions{MergeFunction: merge.Append.Name(), Filter: spelling{}.Name()}},
}

// storeFor returns the database with a keyspace that fits a history, and fits the history
// to what is in the keyspace. It creates the keyspaces on an empty disk.
func storeFor(cfg *isolation.Config, db *stoat.DB, rng *rand.Rand) (*storeUnderTest, error) {
	s := &storeUnderTest{db: db, mixed: rng.IntN(2) == 0, counts: cfg.Counts, timed: cfg.Times > 0}
	var fitting []*stoat.Keyspace
	for _, h := range homes {
		var ks *stoat.Keyspace
		var err error
		if h.name != "" {
			ks, err = db.Keyspace(h.name, &h.o)
		}
		if err != nil {
			return nil, err
		}
		if s.counts == (h.o.MergeFunction == merge.Counter.Name()) && s.timed == (h.o.Timestamps != 0) {
			fitting = append(fitting, ks)
		}
	}
	s.space = fitting[rng.IntN(len(fitting))]
	s.filtered = s.name() == "first" || s.name() == "last"
	if !s.timed || s.name() != discarding {
		return s, nil
	}
	// Compactions drop versions below the floor, and deletions at it, at any time.
	cfg.Floor, cfg.All = 1+s.space.DiscardedBelow()+rng.Uint64N(uint64(cfg.Times)), false
	return s, s.space.DiscardBelow(cfg.Floor)
}

// stateOf reads everything in a database without writers.
func stateOf(s *storeUnderTest) (version uint64, items []isolation.Item, err error) {
	err = s.db.View(func(tx stoat.Txn) error {
		version = tx.ReadVersion()
		t := s.of(tx)
		if s.timed {
			t.At(math.MaxUint64)
		}
		items, _, err = t.Scan(isolation.Query{All: s.timed})
		return err
	})
	return version, items, err
}

// PlayApplication runs one of isolation.Applications on a database of its own and
// returns how many conflicts it met.
func PlayApplication(application int, seed uint64) (conflicts int, err error) {
	db, err := stoat.Open(testkit.Dir, &stoat.Options{FS: memfs.New()})
	if err != nil {
		return 0, err
	}
	store := &storeUnderTest{db: db, mixed: seed%2 == 0}
	var driven isolation.Store = store
	if seed%4 > 1 {
		driven = &updatingStore{storeUnderTest: store}
	}
	conflicts, err = isolation.Applications()[application].Play(driven, 8, 40, seed)
	return conflicts, errors.Join(err, db.Close())
}
