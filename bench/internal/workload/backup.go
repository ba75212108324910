package workload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// runBackup writes a full backup to a file, restores it to another directory, and
// checks every byte of the restored database. Both are durable before the clock
// stops.
func runBackup(r *Run) error {
	return r.reading(oneReader, r.job.Pace.Warm, nil, func(s stores.Store, present *Bitset) error {
		b, ok := s.(stores.Backuper)
		if !ok {
			return lacking("a backup to a stream")
		}
		return r.scratch(func(dir string) error { return r.backUp(b, dir, present) })
	})
}

func (r *Run) backUp(b stores.Backuper, dir string, present *Bitset) error {
	path := filepath.Join(dir, "backup")
	live := r.population.UserBytes(present.Count())
	began := time.Now()
	size, err := writeBackup(b, path)
	if err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	r.set("backup_mb_per_s", live/time.Since(began).Seconds()/megabyte)
	r.set("backup_size_per_live_byte", float64(size)/live)

	file, err := os.Open(path)
	if err != nil {
		return err
	}
	c := r.config(false, loadWriters)
	c.Dir = filepath.Join(dir, "restored")
	began = time.Now()
	restored, err := b.Restore(c, file)
	took := time.Since(began)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	r.set("restore_mb_per_s", live/took.Seconds()/megabyte)
	return errors.Join(r.verifyWhole(restored, present, nil), restored.Close())
}

// writeBackup writes a durable backup and returns its size in bytes.
func writeBackup(b stores.Backuper, path string) (size int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := b.Backup(f); err != nil {
		return 0, err
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

const (
	// checkpoints is how many checkpoints a job makes.
	checkpoints = 5

	// checkpointKeys is how many keys are written before each of them.
	checkpointKeys = 1000
)

// runCheckpoint makes checkpoints, each after a batch of writes, and checks every
// byte of the last one. The writes put the values that the keys already have.
func runCheckpoint(r *Run) error {
	present := r.population.Present()
	s, err := r.open(r.config(false, 1))
	if err != nil {
		return err
	}
	c, ok := s.(stores.Checkpointer)
	if !ok {
		return errors.Join(lacking("a checkpoint"), s.Close())
	}
	err = r.scratch(func(dir string) error { return r.checkpoint(s, c, dir, present) })
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

func (r *Run) checkpoint(s stores.Store, c stores.Checkpointer, dir string, present *Bitset) error {
	rng, choose := newRandom(88), keyThat(true, present)
	b := stores.NewBatch(nil)
	p := &r.population
	var times []time.Duration
	var text Key
	for i := range checkpoints {
		b.Reset()
		for range checkpointKeys {
			number, _ := choose(rng)
			p.Keys.Put(&text, number)
			p.Values.Fill(b.Reserve(text[:], p.Values.Size), number, 0)
		}
		if err := s.Apply(b); err != nil {
			return err
		}
		began := time.Now()
		if err := c.Checkpoint(filepath.Join(dir, fmt.Sprint(i))); err != nil {
			return fmt.Errorf("checkpoint: %w", err)
		}
		times = append(times, time.Since(began))
	}
	r.setMillis("checkpoint_ms", median(times))
	config := r.config(false, 1)
	config.Dir = filepath.Join(dir, fmt.Sprint(checkpoints-1))
	copied, err := r.info.Open(config)
	if err != nil {
		return fmt.Errorf("open the checkpoint: %w", err)
	}
	return errors.Join(r.verifyWhole(copied, present, nil), copied.Close())
}
