package schedules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/compact"
	"github.com/stoatdb/stoat/internal/testing/inside"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A cutLife is a life of a database in which manual jobs of small ranges cut tables of level
// 0 all the time. So runs have many tables, and many bounds.
type cutLife struct {
	db   *inside.DB
	m    *model.Map
	rng  *rand.Rand
	held []*stoat.Snapshot
	cuts int
}

const (
	cutSteps = 150 // of a life
	cutKeys  = 30  // of a batch, at most
)

// RunCuts plays a life in which tables are cut. It returns how many.
func RunCuts(seed uint64) (cuts int, err error) {
	opts := testkit.Combining(stoat.Options{FS: memfs.New(), Clock: testkit.NewClock(), Durability: stoat.Buffered})
	l := &cutLife{m: model.NewMap(), rng: rand.New(rand.NewPCG(seed, 0xc475))}
	if l.db, err = inside.Open(testkit.Dir, &opts, work.Executor{Manual: true}); err != nil {
		return 0, err
	}
	defer func() {
		for _, s := range l.held {
			s.Close()
		}
		err = errors.Join(err, l.db.Close())
	}()
	for i := range cutSteps {
		if err := errors.Join(l.step(), l.look()); err != nil {
			return l.cuts, fmt.Errorf("life %d with cuts, step %d: %w", seed, i, err)
		}
	}
	_, err = l.db.Check(context.Background(), stoat.CheckOptions{})
	return l.cuts, err
}

func (l *cutLife) step() error {
	switch n := l.rng.IntN(24); {
	case n < 8:
		return l.write()
	case n < 9:
		return l.deleteRange()
	case n < 15:
		err := l.db.Engine.Commits.Rotate(true)
		if err == nil {
			_, err = l.db.Engine.Jobs.FlushNext()
		}
		return err
	case n < 17:
		return l.hold()
	case n < 18:
		return l.sink(nil, nil)
	}
	lo, hi := l.key(), l.key()
	if bytes.Compare(lo, hi) > 0 {
		lo, hi = hi, lo
	}
	return l.sink(lo, hi)
}

// key draws a key, or one beside it.
func (l *cutLife) key() []byte {
	if l.rng.IntN(8) == 0 {
		return fmt.Appendf(nil, "sum%03d", l.rng.IntN(3))
	}
	return []byte(testkit.SetKey(l.rng.IntN(2*cutKeys), "").Key)
}

// write sets, deletes, and merges into some keys.
func (l *cutLife) write() error {
	writes := testkit.MergeBatch(l.rng, cutKeys, 40)
	for i := range writes {
		if writes[i].Steps == nil && l.rng.IntN(4) == 0 {
			writes[i].Version = model.Version{Deleted: true}
		}
	}
	l.m.Commit(writes)
	return l.db.Update(func(tx stoat.Txn) error { return testkit.PutAll(tx, writes) })
}

func (l *cutLife) deleteRange() error {
	lo, hi := l.key(), l.key()
	tx := l.m.Begin(l.m.Last(), true)
	tx.DeleteRange(string(lo), string(hi), true)
	tx.Commit()
	return l.db.Update(func(tx stoat.Txn) error { return tx.DeleteRange(lo, hi) })
}

// hold keeps the present state, and at most three.
func (l *cutLife) hold() error {
	s, err := l.db.Snapshot(stoat.SnapshotOptions{})
	if err != nil {
		return err
	}
	if l.held = append(l.held, s); len(l.held) > 3 {
		l.held[0].Close()
		l.held = l.held[1:]
	}
	return nil
}

// sink does some steps of taking a range to the last level.
func (l *cutLife) sink(lo, hi []byte) error {
	jobs := l.db.Engine.Jobs
	jobs.Compacting.Lock()
	defer jobs.Compacting.Unlock()
	for range 1 + l.rng.IntN(8) {
		s := jobs.Shape(work.Busy, l.db.Engine.Store.Horizon())
		s.CutFrom = -1
		plan, due := compact.PickRange(l.db.Engine.Store.Version(), s, compact.Range{Lo: lo, Hi: hi, UpTo: base.SeqNumMax})
		if !due {
			return nil
		}
		if plan.Cuts {
			l.cuts++
		}
		if err := jobs.Run(plan, l.db.Engine.Group.Err, nil); err != nil {
			return err
		}
	}
	return nil
}

// look compares the present and all snapshots with the model.
func (l *cutLife) look() error {
	compare := func(tx stoat.Txn) error { return testkit.Compare(tx, l.m, testkit.ClockStart) }
	err := l.db.View(compare)
	for _, s := range l.held {
		err = errors.Join(err, s.View(compare))
	}
	return err
}
