package kill

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// Examine looks at the directory that a life has left: its state must be the
// one after some commit, floor or later. It returns that state, in which the
// next life begins.
//
// Half of the time Examine opens a copy. Then the next life meets what the end of this one
// has left, and not what a recovery has made of it. The other half, the copy stays as it
// is. Either way a failure leaves the untouched files behind and says where.
func Examine(dir string, l *Ledger, floor uint64, rng *rand.Rand) (*State, error) {
	kept, err := Scratch("stoat-evidence-")
	if err != nil {
		return nil, err
	}
	duplicate := filepath.Join(kept, "db")
	if err := os.CopyFS(duplicate, os.DirFS(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("copy what is left: %w", err)
	}
	opened := dir
	if rng.IntN(2) == 0 {
		opened = duplicate
	}
	var found, goneOn *State
	err = noPlainText(l.Seed, duplicate)
	if err == nil {
		found, goneOn, err = reopened(opened, l, floor, rng)
	}
	if err != nil {
		evidence := duplicate
		if opened == duplicate {
			evidence = filepath.Join(kept, "untouched")
			err = errors.Join(err, os.CopyFS(evidence, os.DirFS(dir)))
		}
		return nil, fmt.Errorf("%w\nthe files as they were: %s", err, evidence)
	}
	if opened == dir {
		found = goneOn
	}
	found.forgetTrailing()
	return found, os.RemoveAll(kept)
}

// noPlainText demands that no file of an encrypted database has the sentinel.
func noPlainText(seed uint64, dir string) error {
	if !Encrypted(seed) {
		return nil
	}
	return testkit.NoSentinel(vfs.OS(), dir)
}

// reopened opens a database, compares everything with the model, writes on,
// closes it, and opens and compares it again. It returns the states that the
// two openings had to have.
func reopened(dir string, l *Ledger, floor uint64, rng *rand.Rand) (found, goneOn *State, err error) {
	opts := PlanLife(l.Seed, l.Life+1).Opts
	err = opening(dir, opts, func(db *stoat.DB) error {
		err := db.View(func(tx stoat.Txn) error {
			if found, err = l.settle(db, tx, floor); err != nil {
				return err
			}
			return found.compare(db, tx)
		})
		if err != nil {
			return err
		}
		goneOn = found.clone()
		return writeOn(db, goneOn, l.Life, rng)
	})
	if err != nil {
		return nil, nil, err
	}
	err = opening(dir, opts, func(db *stoat.DB) error { return wantState(db, goneOn) })
	if err != nil {
		return nil, nil, fmt.Errorf("recovered at commit %d, written on and opened again: %w", found.Last(), err)
	}
	return found, goneOn, nil
}

// opening does something with an open database and closes it.
func opening(dir string, opts stoat.Options, do func(db *stoat.DB) error) error {
	db, err := stoat.Open(dir, &opts)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	return errors.Join(do(db), db.Close())
}

// wantState demands that the database is in the state s. It adds commits that no writer
// made to s.
func wantState(db *stoat.DB, s *State) error {
	return db.View(func(tx stoat.Txn) error {
		if err := s.silentTo(tx.ReadVersion()); err != nil {
			return err
		}
		if tx.ReadVersion() != s.Last() {
			return fmt.Errorf("the database is at commit %d, want %d", tx.ReadVersion(), s.Last())
		}
		return s.compare(db, tx)
	})
}

// writeOn commits a little to a recovered database and to its state.
func writeOn(db *stoat.DB, s *State, life uint64, rng *rand.Rand) error {
	for range rng.IntN(4) {
		w := recoveredWrites(rng, life)
		version, err := CommitWrites(db, w, testkit.RandomDurability(rng))
		if err != nil {
			return fmt.Errorf("commit after recovery at %d: %w", s.Last(), err)
		}
		if err := s.silentTo(version - 1); err != nil {
			return err
		}
		if want := s.commit(w); version != want {
			return fmt.Errorf("commit after recovery got version %d, want %d", version, want)
		}
	}
	return nil
}

// patience is how long a life may take before it is called hung: it takes
// seconds, on a machine that may be busy.
const patience = 3 * time.Minute

// InTime does something that must not hang.
func InTime(do func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- testkit.CatchPanic(do) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		stacks := make([]byte, 1<<20)
		return fmt.Errorf("hung for %v:\n%s", patience, stacks[:runtime.Stack(stacks, true)])
	}
}

// wallClockMs returns the time in ms since 1970.
func wallClockMs() uint64 { return uint64(time.Now().UnixMilli()) }

// EachChain divides lives into chains and runs them, one for each processor
// at a time.
func EachChain(lives, perChain int, run func(chain, lives int) error) error {
	return testkit.InParallel((lives+perChain-1)/perChain, func(chain int) error {
		return run(chain, min(perChain, lives-chain*perChain))
	})
}
