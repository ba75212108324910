//go:build linux

package diskfull

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/tests/kill"
)

// A fullRun is a database whose disk becomes full.
type fullRun struct {
	dir  string
	plan kill.LifePlan
	rng  *rand.Rand
	l    *kill.Ledger
	most uint64 // transactions of a writer after which the disk must be full
	next []uint64

	// squeeze, if there is one, takes the space away after so many commits. A
	// database may also cope with what it leaves.
	squeeze      func() error
	squeezeAfter int64
	commits      atomic.Int64
	roomy        bool // there is room again

	refusal atomic.Pointer[error] // the last one
}

// newFullRun is for a disk of about so many bytes.
func newFullRun(disk string, seed uint64, size int64) *fullRun {
	f := &fullRun{dir: filepath.Join(disk, "db"), plan: kill.PlanLife(seed, 0), rng: rand.New(rand.NewPCG(seed, 4<<32))}
	f.l = kill.NewLedger(seed, 0, kill.NewState())
	f.l.Fresh = int(size / 200)
	// Four times the disk, whatever else the transactions hold.
	f.most = uint64(4 * size / int64(f.l.Fresh*f.plan.Writers))
	f.next = make([]uint64, f.plan.Writers)
	return f
}

// opening opens the database, demands everything that was acknowledged, does
// something, demands everything again, and closes. The disk may be full all
// the time; then Close may say so, and has lost nothing.
func (f *fullRun) opening(do func(db *stoat.DB) error) error {
	db, err := stoat.Open(f.dir, &f.plan.Opts)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	if err = f.compare(db); err != nil {
		err = fmt.Errorf("after opening: %w", err)
	} else if err = do(db); err == nil {
		err = f.compare(db)
	}
	closing := db.Close()
	if !f.roomy && errors.Is(closing, stoat.ErrNoSpace) {
		closing = nil
	}
	return errors.Join(err, closing)
}

func (f *fullRun) compare(db *stoat.DB) error {
	return db.View(func(tx stoat.Txn) error {
		return f.l.Compare(db, tx, f.l.Known.Load())
	})
}

// commit does the next transaction of a writer and notes it if it succeeds.
// It reports whether there was space.
func (f *fullRun) commit(db *stoat.DB, writer int, rng *rand.Rand) (bool, error) {
	if f.squeeze != nil && f.commits.Add(1) == f.squeezeAfter {
		if err := f.squeeze(); err != nil {
			return false, err
		}
	}
	f.next[writer]++
	id := kill.WorkID{Writer: uint64(writer), N: f.next[writer]}
	d := testkit.RandomDurability(rng)
	version, err := kill.CommitWrites(db, f.l.Writes(id), d)
	if errors.Is(err, stoat.ErrNoSpace) {
		f.refusal.Store(&err)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("transaction %v: %w", id, err)
	}
	return true, f.l.Committed(id, version, d)
}

// refusals is how often every writer is refused before it believes that the
// disk is full.
const refusals = 5

// fillUp lets the writers work until the disk is full, beside a reader.
func (f *fullRun) fillUp(db *stoat.DB) error {
	var writing atomic.Int64
	writing.Store(int64(f.plan.Writers))
	return testkit.Concurrently(f.plan.Writers+1, func(i int, rng *rand.Rand) error {
		if i == f.plan.Writers {
			for writing.Load() > 0 {
				if err := kill.LookOver(db, rng); err != nil {
					return fmt.Errorf("reading while the disk fills: %w", err)
				}
			}
			return nil
		}
		defer writing.Add(-1)
		for refused := 0; refused < refusals; {
			if f.next[i] > f.most && f.squeeze != nil {
				return nil
			}
			if f.next[i] > f.most {
				return errors.New("the disk never becomes full")
			}
			done, err := f.commit(db, i, rng)
			if err != nil {
				return err
			}
			if !done {
				refused++
			}
		}
		return nil
	}, f.plan.Seed)
}

// stayFull tries to write to the full disk, and to delete from it.
func (f *fullRun) stayFull(db *stoat.DB) error {
	for range 10 {
		if _, err := f.commit(db, f.rng.IntN(f.plan.Writers), f.rng); err != nil {
			return err
		}
		err := db.Sync()
		if err != nil && !errors.Is(err, stoat.ErrNoSpace) {
			return fmt.Errorf("sync: %w", err)
		}
	}
	return nil
}

// goOnWithin is how long a database may take to notice that there is space:
// background work that was refused waits before it tries again.
const goOnWithin = time.Minute

// goOn demands that every writer can write again.
func (f *fullRun) goOn(db *stoat.DB) error {
	for writer := range f.next {
		deadline := time.Now().Add(goOnWithin)
		for commits := 0; commits < 3; {
			done, err := f.commit(db, writer, f.rng)
			if err != nil {
				return err
			}
			if done {
				commits++
			} else if time.Now().After(deadline) {
				return fmt.Errorf("writer %d is still refused %v after space was made: %w\n%+v",
					writer, goOnWithin, *f.refusal.Load(), db.Stats())
			}
		}
	}
	return db.Sync()
}
