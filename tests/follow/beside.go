package follow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs"
)

// RunBeside lets a writer do so many steps, with restarts and kills, while followers read
// beside it as fast as they can.
func RunBeside(seed uint64, steps, followers int, fs vfs.FS, dir string) (Work, error) {
	w, err := newWriter(rand.New(rand.NewPCG(seed, 39)), fs, dir)
	if err != nil {
		return Work{}, err
	}
	var ended atomic.Bool
	var failed testkit.FirstError
	var reads, opens atomic.Int64
	err = testkit.Concurrently(1+followers, func(i int, rng *rand.Rand) error {
		if i > 0 {
			for !ended.Load() && failed.Get() == nil {
				n, err := w.followFor(rng, &ended)
				reads.Add(int64(n))
				opens.Add(1)
				failed.Set(err)
			}
			return nil
		}
		defer ended.Store(true)
		for i := 0; i < steps && failed.Get() == nil; i++ {
			step := w.step
			if w.rng.IntN(100) == 0 {
				step = w.kill
			}
			if err := step(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		return nil
	}, seed)
	w.tally()
	w.work.Reads, w.work.Opens = int(reads.Load()), int(opens.Load())
	return w.work, errors.Join(err, failed.Get(), w.db.Close())
}

// followFor opens a follower, and reads for a while.
func (w *writer) followFor(rng *rand.Rand, ended *atomic.Bool) (reads int, err error) {
	r, err := w.follow(w.fs, w.dir, w.options, rng)
	if err != nil {
		return 0, fmt.Errorf("open a follower: %w", err)
	}
	for n := 1 + rng.IntN(200); n > 0 && err == nil && !ended.Load(); n-- {
		err = r.read(rng)
	}
	if err == nil {
		err = r.read(rng)
	}
	return r.reads, errors.Join(err, r.close())
}
