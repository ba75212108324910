package feed

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

const (
	// stepsMax: a life whose disk crashes has at most so many steps.
	stepsMax = 240
	// copiesMax: one life gives at most so many copies of the disk.
	copiesMax = 200
)

// A crashing life takes copies of its disk at boundaries of calls of the file system.
type crashing struct {
	*life
	mu     sync.Mutex
	sample testkit.Sample[crashCopy]
}

// A crashCopy is the disk before a call of the file system.
type crashCopy struct {
	disk *memfs.FS
	op   string
	// The versions that were acknowledged, acknowledged as durable, delivered by the
	// feed, and begun.
	known, durable, delivered, begun uint64
}

// RunCrashes plays a life, crashes copies of its disk, and reads the feeds of what is left.
// A feed begins at the beginning, where the consumer was, or at any version. It must deliver
// each commit once and in order, also beside new commits and after another power cut.
func RunCrashes(seed uint64, states int) (Work, error) {
	l := newLife(seed)
	l.steady = true
	rng := rand.New(rand.NewPCG(seed, 38))
	c := &crashing{life: l, sample: testkit.Sample[crashCopy]{Max: states, Rand: rng}}
	l.disk.SetHook(c.boundary)
	if err := l.play(stepsMax/8 + rng.IntN(stepsMax*7/8)); err != nil {
		return l.work, fmt.Errorf("the life itself: %w", err)
	}
	l.disk.SetHook(nil)
	for i := range states { // a short life has fewer boundaries
		s := &c.sample.Kept[i%len(c.sample.Kept)]
		rng := rand.New(rand.NewPCG(seed<<16+uint64(i), 39))
		if err := testkit.CatchPanic(func() error { return c.check(s, rng) }); err != nil {
			return l.work, fmt.Errorf("state %d, with %d commits delivered, %d durable and %d known, before %s: %w",
				i, s.delivered, s.durable, s.known, s.op, err)
		}
		l.work.States++
	}
	return l.work, nil
}

// boundary may take a copy of the disk. All boundaries have the same chance.
func (c *crashing) boundary(op vfs.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slot := c.sample.Slot()
	if slot == nil {
		return
	}
	// What is promised before the copy must be on it. What begins later may be on it.
	s := crashCopy{op: op.String(), known: c.known.Load(), durable: c.durable.Load(), delivered: c.delivered.Load()}
	s.disk = c.disk.Clone()
	s.begun = c.begun.Load()
	*slot = s
}

// check crashes a copy and reads the feeds of what is left.
func (c *crashing) check(s *crashCopy, rng *rand.Rand) (err error) {
	l := &life{rng: rng, bounded: c.bounded, encrypted: c.encrypted, steady: true, remote: rng.IntN(4) == 0}
	floor := max(s.durable, s.delivered)
	if rng.IntN(8) == 0 {
		l.disk, floor = s.disk.Clone(), s.known // the process alone dies
	} else {
		l.disk = testkit.RandomCut(rng)(s.disk)
	}
	if err := l.open(); err != nil {
		return err
	}
	defer func() {
		c.work.Add(l.work)
		err = errors.Join(err, l.closeFollower(), l.db.Close())
	}()
	last, err := testkit.VersionOf(l.db)
	if err != nil {
		return err
	}
	if last < floor || last > s.begun {
		return fmt.Errorf("version %d was recovered, want %d to %d", last, floor, s.begun)
	}
	l.ledger = c.ledger.upTo(last)
	from := s.delivered
	switch rng.IntN(4) {
	case 0:
		from = 0
	case 1:
		from = rng.Uint64N(last + 1)
	}
	l.replica = l.ledger.replicaAt(from)
	return l.goOn()
}

// goOn continues the feed, beside new commits, and at times after another power cut.
func (l *life) goOn() error {
	if err := l.follow(l.rng.IntN(2) == 0); err != nil {
		return fmt.Errorf("a feed after a power cut: %w", err)
	}
	for range l.rng.IntN(4) {
		if err := l.commit(); err != nil {
			return err
		}
	}
	if l.rng.IntN(4) == 0 {
		if err := l.cut(); err != nil {
			return err
		}
	}
	if err := l.follow(false); err != nil {
		return fmt.Errorf("a feed beside %d new commits and %d power cuts: %w", l.work.Commits, l.work.Cuts, err)
	}
	return nil
}

// upTo returns a ledger of the versions up to last.
func (l *ledger) upTo(last uint64) ledger {
	to := ledger{changes: maps.Clone(l.changes), last: l.last}
	to.forget(last)
	return to
}

// replicaAt returns what a replica has after a version.
func (l *ledger) replicaAt(version uint64) replica {
	r := replica{version: version, values: map[string]string{}}
	for v := uint64(1); v <= version; v++ {
		for i := range l.changes[v] {
			r.apply(&l.changes[v][i])
		}
	}
	return r
}
