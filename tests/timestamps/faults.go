package timestamps

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/faultfs"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// RunFaults plays a life whose operations are durable, on a disk of which calls may fail,
// up to the first operation that fails. Later the healthy disk, and what a power cut leaves
// of it, must hold what was there before that operation or after it. excused returns nil for
// an error that a failing disk may cause, and otherwise an error. Half of the databases are
// encrypted. RunFaults returns how many calls there were.
func RunFaults(seed uint64, ops int, rule faultfs.Rule, excused func(error) error) (calls int64, err error) {
	r := newRun(seed)
	r.opts.Keys = testkit.KeysIf(seed%2 == 0)
	faulty := faultfs.New(r.fs)
	faulty.Add(rule)
	r.through = faulty
	before, after, err := r.liveUntilFault(ops, excused)
	if err != nil {
		return faulty.Calls(), err
	}
	r.through = nil
	for _, disk := range []*memfs.FS{r.fs.Clone(), testkit.RandomCut(r.rng)(r.fs)} {
		if err := r.holds(disk.Clone(), before); err != nil {
			if e := r.holds(disk, after); e != nil {
				return 0, fmt.Errorf("not what was before the operation: %w; nor what was after it: %w", err, e)
			}
		}
	}
	return faulty.Calls(), nil
}

// liveUntilFault is the life. It returns what was there before the operation that failed,
// and what that may have made of it.
func (r *run) liveUntilFault(ops int, excused func(error) error) (before, after moment, err error) {
	now := func() moment { return moment{r.models, slices.Clone(r.floors)} }
	before = now()
	opening := r.open()
	if opening == nil {
		steps := []func() error{r.write, r.write, r.write, r.read, r.discard, r.fill, r.compact}
		for range ops {
			before = now()
			if err = steps[r.rng.IntN(len(steps))](); err != nil {
				break
			}
		}
	}
	if err == nil {
		before = now()
	}
	if after = now(); r.doubt != nil {
		after.models = r.doubt
	}
	if r.db != nil {
		err = errors.Join(excused(err), excused(r.db.Close()))
		r.db = nil
	}
	return before, after, errors.Join(err, excused(opening))
}
