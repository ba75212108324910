//go:build linux

package powercut

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/tests/kill"
	"github.com/stoatdb/stoat/vfs"
)

// cutsPerDatabase is how many lives one database has.
const cutsPerDatabase = 10

// TestPowerCut cuts the power of real file systems under a database: ext4 in
// its three modes and XFS, each on a loop device. The kernel's own shutdown
// call drops what it has not written, mounting replays the journal, and what
// is left must be the state after some commit, with all that was acknowledged
// as durable. Until the file system is gone, the database meets a device that
// fails, and must end in good order.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	cuts := dose.Size(t, dose.Cuts, 4, 12)
	dose.Reproduce(t, "powercut")
	kinds, err := tryCutKinds(t.TempDir())
	if errors.Is(err, errNoCuts) {
		t.Skip("no power cuts here:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	tally := new(cutTally)
	// Each kind has its share even of a small dose.
	perDatabase := min(cutsPerDatabase, max(1, cuts/len(kinds)))
	err = kill.EachChain(cuts, perDatabase, func(chain, lives int) error {
		kind := kinds[chain%len(kinds)]
		if err := cutChain(kind, seed+uint64(chain), lives, tally); err != nil {
			return fmt.Errorf("seed %d, %s: %w", seed+uint64(chain), kind.name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.name)
	}
	t.Logf("%d cuts of %s: %d commits acknowledged, %d of them lost as they might, %d found without; "+
		"after %d cuts, a sync that ran during the cut had succeeded in vain",
		tally.cuts.Load(), strings.Join(names, ", "), tally.commits.Load(), tally.lost.Load(), tally.found.Load(),
		tally.vain.Load())
	// Twenty cuts of some seeds take no commit.
	if cuts >= 200 && tally.lost.Load() == 0 {
		t.Error("no power cut took a commit that it might take")
	}
}

// A cutTally counts what power cuts have met.
type cutTally struct {
	cuts, commits, lost, found, vain atomic.Int64
}

// cutChain takes one database through lives that end with a power cut.
func cutChain(kind cutKind, seed uint64, lives int, tally *cutTally) error {
	below, err := kill.Scratch("stoat-powercut-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(below) // examine keeps the evidence elsewhere
	disk, err := newCutDisk(kind, below)
	if disk != nil {
		defer disk.remove()
	}
	if err != nil {
		return err
	}
	s := kill.NewState()
	for life := range uint64(lives) {
		rng := rand.New(rand.NewPCG(seed, 2<<32+life))
		l := kill.NewLedger(seed, life, s)
		l.Drops = true
		safe, err := cutLife(disk, l, rng)
		if err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		if err := disk.unmount(); err != nil {
			return fmt.Errorf("life %d, after the cut: %w", life, err)
		}
		if err := disk.mount(); err != nil {
			return fmt.Errorf("life %d, after the cut: %w", life, err)
		}
		acknowledged, known, durable := len(l.Commits), l.Known.Load(), l.Durable.Load()
		if s, err = kill.Examine(filepath.Join(disk.dir, "db"), l, safe, rng); err != nil {
			return fmt.Errorf("life %d, after the cut, commit %d known, %d durable, %d of them before the cut: %w",
				life, known, durable, safe, err)
		}
		tally.cuts.Add(1)
		tally.commits.Add(int64(acknowledged))
		tally.found.Add(int64(len(l.Commits) - acknowledged))
		if known > s.Last() {
			tally.lost.Add(int64(known - s.Last()))
		}
		if durable > s.Last() {
			tally.vain.Add(1)
		}
	}
	return disk.unmount()
}

// cutLife lives a life and cuts the power after some of its news, or, for the
// opening, some time after it has begun. It returns the newest commit that had
// been acknowledged as durable when the cut began. One that is acknowledged
// later proves nothing: no power cut leaves anybody to hear it, and in a sync
// that runs while the file system is shut down, ext4 forgets to say that it
// could not note in its journal that blocks are now in use.
func cutLife(disk *cutDisk, l *kill.Ledger, rng *rand.Rand) (safe uint64, err error) {
	plan := kill.PlanLife(l.Seed, l.Life)
	plan.Drops = l.Drops
	most := plan.Writers*int(plan.Tries) + 2
	cutAfter, delay := 1+rng.IntN(most), rng.IntN(300)
	flags := uint32(shutdownNoLogFlush)
	if rng.IntN(4) == 0 {
		flags = shutdownLogFlush
	}
	if rng.IntN(6) == 0 {
		cutAfter = 0
	}
	due := make(chan struct{})
	var heard atomic.Int64
	var once sync.Once
	var strange testkit.FirstError
	if cutAfter == 0 {
		close(due)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- kill.InTime(func() error {
			return plan.Live(filepath.Join(disk.dir, "db"), func(n kill.News) {
				strange.Set(l.Hear(n))
				if heard.Add(1) == int64(cutAfter) {
					once.Do(func() { close(due) })
				}
			})
		})
	}()
	select {
	case <-due:
		for range delay {
			runtime.Gosched()
		}
		l.Cut()
		safe = l.Durable.Load()
		if err := disk.cut(flags); err != nil {
			return safe, errors.Join(err, <-ended)
		}
		err = faultOfCut(<-ended)
	case err = <-ended: // in good order, if the cut was due after it
		safe = l.Durable.Load()
		err = errors.Join(err, disk.cut(flags))
	}
	return safe, errors.Join(err, strange.Get())
}

// faultOfCut accepts the errors that a dead device may cause, and no other
// among them. Nothing of what it does not give any more may be taken for
// damage.
func faultOfCut(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var left []error
		for _, one := range many.Unwrap() {
			left = append(left, faultOfCut(one))
		}
		return errors.Join(left...)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, stoat.ErrCorrupt), errors.Is(err, stoat.ErrLocked):
	case errors.Is(err, vfs.ErrIO), errors.Is(err, vfs.ErrReadOnly):
		return nil // ext4 says the latter once its journal has been aborted
	}
	return fmt.Errorf("a dead device was taken for something else: %w", err)
}
