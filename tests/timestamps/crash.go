package timestamps

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A moment is what a database holds after an operation.
type moment struct {
	models []modelSpace
	floors []uint64
}

// A diskCopy is a disk during an operation, before which others were acknowledged.
type diskCopy struct {
	disk *memfs.FS
	done int
	op   string
}

// copiesMax is the number of copies of one life.
const copiesMax = 30

// RunCrashes plays a life whose operations are durable, and copies the disk at random
// calls of it. After a power cut, each copy must hold what it held before or after the
// operation under way.
func RunCrashes(seed uint64, ops int) (checked int, err error) {
	r := newRun(seed)
	if err := r.open(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	var mu sync.Mutex
	sample := testkit.Sample[diskCopy]{Max: copiesMax, Rand: rand.New(rand.NewPCG(seed, 5))}
	past := []moment{{r.models, slices.Clone(r.floors)}}
	r.fs.SetHook(func(op vfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if slot := sample.Slot(); slot != nil {
			*slot = diskCopy{r.fs.Clone(), len(past) - 1, op.String()}
		}
	})
	steps := []func() error{r.write, r.write, r.write, r.discard, r.fill, r.compact}
	for range ops {
		if err := steps[r.rng.IntN(len(steps))](); err != nil {
			return 0, err
		}
		mu.Lock()
		past = append(past, moment{r.models, slices.Clone(r.floors)})
		mu.Unlock()
	}
	r.fs.SetHook(nil)
	for _, c := range sample.Kept {
		if err := r.checkCopy(c, past); err != nil {
			return 0, fmt.Errorf("seed %d, after %d operations, before %s: %w", seed, c.done, c.op, err)
		}
	}
	return len(sample.Kept), nil
}

// checkCopy cuts the power of a copy.
func (r *run) checkCopy(c diskCopy, past []moment) error {
	disk := testkit.RandomCut(r.rng)(c.disk)
	before, after := past[c.done], past[min(c.done+1, len(past)-1)]
	err := r.holds(disk.Clone(), before)
	if err == nil {
		return nil
	}
	if e := r.holds(disk, after); e != nil {
		return fmt.Errorf("not what was before the operation: %w; nor what was after it: %w", err, e)
	}
	return nil
}

// holds opens a disk and compares it with a moment, before and after a compaction.
func (r *run) holds(disk *memfs.FS, m moment) (err error) {
	other := *r
	other.fs, other.models, other.floors, other.db = disk, m.models, m.floors, nil
	other.held, other.heldModels = stoat.Txn{}, nil
	defer func() {
		if other.db != nil {
			err = errors.Join(err, other.db.Close())
		}
	}()
	if err := other.open(); err != nil {
		return err
	}
	return testkit.Times(2, func(int) error {
		if err := other.verify(); err != nil {
			return err
		}
		return other.db.Compact(context(), stoat.CompactOptions{})
	})
}
