package feed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/feed"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// Work is what lives came to.
type Work struct {
	Commits, Resumes, Cuts, Taken, Restarts, Gone, Large, States, Filtered, Drops int
}

// Add adds the work of another life.
func (w *Work) Add(o Work) {
	w.Commits += o.Commits
	w.Resumes += o.Resumes
	w.Cuts += o.Cuts
	w.Taken += o.Taken
	w.Restarts += o.Restarts
	w.Gone += o.Gone
	w.Large += o.Large
	w.States += o.States
	w.Filtered += o.Filtered
	w.Drops += o.Drops
}

// A life is one database with one consumer of its feed.
type life struct {
	rng   *rand.Rand
	disk  *memfs.FS
	db    *stoat.DB
	other *stoat.Keyspace
	// otherID is the ID of other.
	otherID uint32
	// follower is what the consumer subscribes to, if it is in another process.
	follower *stoat.DB
	remote   bool
	// bounded says that the database keeps few changes, so that a feed may find some
	// gone.
	bounded   bool
	encrypted bool
	steady    bool // no power cut in the course of it

	ledger  ledger
	replica replica
	work    Work

	// The newest version that a commit has begun with, that is acknowledged, that is
	// acknowledged as durable, and that a feed has delivered.
	begun, known, durable, delivered atomic.Uint64
}

// RunLife plays a life of so many steps.
func RunLife(seed uint64, steps int) (Work, error) {
	l := newLife(seed)
	err := l.play(steps)
	return l.work, err
}

// RunFollowed plays a life of so many steps, whose consumer subscribes to a follower. Every
// second database keeps few changes.
func RunFollowed(seed uint64, steps int) (Work, error) {
	l := newLife(seed)
	l.remote, l.bounded = true, seed%2 == 0
	err := l.play(steps)
	return l.work, err
}

func newLife(seed uint64) *life {
	rng := rand.New(rand.NewPCG(seed, 37))
	return &life{rng: rng, disk: memfs.New(), bounded: rng.IntN(3) == 0, encrypted: rng.IntN(4) == 0, remote: rng.IntN(3) == 0,
		ledger:  ledger{changes: map[uint64][]feed.Change{}, dropped: map[uint32]bool{}},
		replica: replica{values: map[string]string{}}}
}

// play opens the database, does so many steps and closes it.
func (l *life) play(steps int) error {
	err := l.open()
	for i := 0; i < steps && err == nil; i++ {
		if err = l.step(); err != nil {
			err = fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err == nil {
		err = l.follow(false)
	}
	if l.db != nil {
		err = errors.Join(err, l.close())
	}
	return errors.Join(err, l.closeFollower())
}

// consumed returns the database that the consumer subscribes to.
func (l *life) consumed() (db *stoat.DB, err error) {
	if !l.remote {
		return l.db, nil
	}
	if l.follower == nil {
		l.follower, err = stoat.OpenFollower(testkit.Dir, &stoat.Options{FS: l.disk, MemtableSize: testkit.SmallMemtable,
			MergeFunctions: []stoat.MergeFunction{tail}, Keys: testkit.KeysIf(l.encrypted),
			FollowEvery: []time.Duration{-1, time.Millisecond}[l.rng.IntN(2)]})
	}
	return l.follower, err
}

func (l *life) closeFollower() error {
	if l.follower == nil {
		return nil
	}
	f := l.follower
	l.follower = nil
	return f.Close()
}

// close closes the database, which makes all commits durable.
func (l *life) close() error {
	err := l.db.Close()
	if err == nil {
		l.durable.Store(l.ledger.last)
	}
	return err
}

func (l *life) open() (err error) {
	o := &stoat.Options{FS: l.disk, MemtableSize: testkit.SmallMemtable, ChangeRetention: 64 << 20,
		MergeFunction: tail.Name(), MergeFunctions: []stoat.MergeFunction{tail}, Keys: testkit.KeysIf(l.encrypted)}
	if l.bounded {
		o.ChangeRetention = []int64{-1, 100_000, 300_000}[l.rng.IntN(3)]
	}
	if l.db, err = stoat.Open(testkit.Dir, o); err != nil {
		return err
	}
	return l.define()
}

// otherName is the name of the second keyspace.
const otherName = "other"

// define opens or creates the second keyspace.
func (l *life) define() (err error) {
	if l.other, err = l.db.Keyspace(otherName, nil); err != nil {
		return err
	}
	infos, err := l.db.Keyspaces()
	for _, i := range infos {
		if i.Name == otherName {
			l.otherID = i.ID
		}
	}
	return err
}

// drop drops the second keyspace, and creates it again.
func (l *life) drop() error {
	if err := l.db.DropKeyspace(otherName); err != nil {
		return err
	}
	l.work.Drops++
	l.ledger.dropped[l.otherID] = true
	l.ledger.last++
	l.ledger.changes[l.ledger.last] = []feed.Change{{Kind: feed.DropKeyspace, Keyspace: otherName, KeyspaceID: l.otherID}}
	l.durable.Store(l.ledger.last)
	if last, err := testkit.VersionOf(l.db); err != nil || last != l.ledger.last {
		return fmt.Errorf("the drop of a keyspace made version %d, want %d: %w", last, l.ledger.last, err)
	}
	return l.define()
}

// step does something drawn.
func (l *life) step() error {
	switch l.rng.IntN(60) {
	case 0:
		if !l.steady {
			return l.surprise()
		}
	case 1:
		l.work.Restarts++
		if err := l.close(); err != nil {
			return err
		}
		return l.open()
	case 2:
		return l.db.Compact(context.Background(), stoat.CompactOptions{})
	case 3:
		return l.db.Collect(context.Background())
	case 4, 5, 6:
		return l.follow(false)
	case 7, 8:
		return l.follow(true)
	case 9:
		return testkit.WaitForFlushes(l.db)
	case 12:
		if !l.steady { // a crash in a drop lets the next opening commit the rest
			return l.drop()
		}
	case 10, 11:
		if !l.remote { // it syncs the log, so a follower would meet less
			return l.filtered()
		}
	}
	return l.commit()
}

// surprise cuts the power after a few buffered commits, which the feed has seen, or which
// are in tables.
func (l *life) surprise() error {
	for range l.rng.IntN(4) {
		if err := l.commitAs(stoat.Buffered); err != nil {
			return err
		}
	}
	var err error
	switch l.rng.IntN(3) {
	case 0:
		err = l.follow(false)
	case 1:
		err = l.db.Compact(context.Background(), stoat.CompactOptions{})
	}
	if err != nil {
		return err
	}
	return l.cut()
}

// commit commits a few writes.
func (l *life) commit() error { return l.commitAs(testkit.RandomDurability(l.rng)) }

func (l *life) commitAs(durability stoat.Durability) error {
	changes := draw(l.rng)
	if len(changes) == 0 {
		return nil
	}
	for i := range changes {
		if changes[i].Keyspace == otherName {
			changes[i].KeyspaceID = l.otherID
		}
	}
	tx, err := l.db.Begin(stoat.ReadWrite)
	if err != nil {
		return err
	}
	defer tx.Discard()
	if err := write(tx, l.other, changes); err != nil {
		return err
	}
	l.begun.Store(l.ledger.last + 1)
	if err := tx.Commit(stoat.WithDurability(durability)); err != nil {
		return err
	}
	if tx.CommitVersion() != l.ledger.last+1 {
		return fmt.Errorf("version %d follows version %d", tx.CommitVersion(), l.ledger.last)
	}
	l.ledger.last++
	l.ledger.changes[l.ledger.last] = changes
	l.known.Store(l.ledger.last)
	if durability == stoat.Synced {
		l.durable.Store(l.ledger.last)
	}
	l.work.Commits++
	return nil
}

// cut cuts the power, and opens what is left.
func (l *life) cut() error {
	after := testkit.RandomCut(l.rng)(l.disk)
	if err := errors.Join(l.closeFollower(), l.db.Close()); err != nil {
		return err
	}
	l.disk = after
	if err := l.open(); err != nil {
		return err
	}
	last, err := testkit.VersionOf(l.db)
	if err != nil {
		return err
	}
	if delivered, durable := max(l.replica.version, l.delivered.Load()), l.durable.Load(); last < max(delivered, durable) {
		return fmt.Errorf("a power cut took the database back to version %d; a feed had delivered %d, and %d was durable", last, delivered, durable)
	}
	l.work.Cuts++
	l.work.Taken += int(l.ledger.last - last)
	l.ledger.forget(last)
	return l.sync()
}

// sync makes all commits durable.
func (l *life) sync() error {
	err := l.db.Sync()
	if err == nil {
		l.durable.Store(l.ledger.last)
	}
	return err
}

// follow brings the replica up to the newest version, or, if early is set, to one before.
func (l *life) follow(early bool) error {
	if l.replica.version == l.ledger.last {
		return nil
	}
	l.work.Resumes++
	until := l.ledger.last
	if early {
		until = l.replica.version + 1 + l.rng.Uint64N(until-l.replica.version)
	}
	db, err := l.consumed()
	if err != nil {
		return err
	}
	for c, err := range db.Subscribe(context.Background(), feed.Options{After: l.replica.version}) {
		var gone *feed.GoneError
		switch {
		case errors.As(err, &gone) && l.bounded:
			return l.begin(gone)
		case err != nil:
			return err
		}
		if err := l.take(&c); err != nil {
			return err
		}
		if c.Version == until {
			break
		}
	}
	if l.replica.version == l.ledger.last {
		return l.replica.compare(l.db, l.other)
	}
	return nil
}

// saw notes that a feed has delivered a version.
func (l *life) saw(version uint64) { l.delivered.Store(max(l.delivered.Load(), version)) }

// filtered compares a feed with a filter with the ledger.
func (l *life) filtered() error {
	o := drawFilter(l.rng)
	if o.After = l.rng.Uint64N(l.ledger.last + 1); o.After == l.ledger.last {
		return nil
	}
	last := o.After
	for c, err := range l.db.Subscribe(context.Background(), o) {
		var gone *feed.GoneError
		if errors.As(err, &gone) && l.bounded {
			return nil
		}
		if err != nil {
			return err
		}
		l.saw(c.Version)
		for last++; last < c.Version; last++ {
			err := l.ledger.compare(last, nil, &o)
			if err != nil {
				return fmt.Errorf("a feed of %q with prefix %q leaves version %d out: %w", o.Keyspaces, o.Prefix, last, err)
			}
		}
		changes, err := l.read(&c)
		if err != nil {
			return err
		}
		if err := l.ledger.compare(c.Version, changes, &o); err != nil {
			return err
		}
		if l.work.Filtered += len(changes); c.Version == l.ledger.last {
			break
		}
	}
	return nil
}

// read returns the changes of a commit.
func (l *life) read(c *feed.Commit) (changes []feed.Change, err error) {
	for ch, err := range c.Changes {
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", c.Version, err)
		}
		if len(ch.Value) >= 16<<10 {
			l.work.Large++
		}
		changes = append(changes, copied(ch))
	}
	return changes, nil
}

// take compares a commit with the ledger, and applies it to the replica.
func (l *life) take(c *feed.Commit) error {
	l.saw(c.Version)
	if c.Version != l.replica.version+1 {
		return fmt.Errorf("version %d follows version %d in the feed", c.Version, l.replica.version)
	}
	changes, err := l.read(c)
	if err != nil {
		return err
	}
	if err := l.ledger.compare(c.Version, changes, &feed.Options{}); err != nil {
		return err
	}
	for i := range changes {
		l.replica.apply(&changes[i])
	}
	l.replica.version = c.Version
	return nil
}

// begin makes the replica a copy of the database, because changes are gone.
func (l *life) begin(gone *feed.GoneError) error {
	l.work.Gone++
	if gone.After != l.replica.version || gone.Oldest <= gone.After || gone.Oldest > l.ledger.last {
		return fmt.Errorf("at version %d of %d: %+v", l.replica.version, l.ledger.last, *gone)
	}
	if err := l.sync(); err != nil { // the copy may have commits that a power cut takes
		return err
	}
	l.replica.values = map[string]string{}
	return l.db.View(func(tx stoat.Txn) error {
		l.replica.version = tx.ReadVersion()
		l.delivered.Store(l.replica.version)
		for name, in := range map[string]stoat.Txn{"/": tx, "other/": tx.In(l.other)} {
			for key, value := range in.All() {
				l.replica.values[name+string(key)] = string(value)
			}
		}
		return tx.Err()
	})
}
