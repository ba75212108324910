package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A tally checks that a stream in any order has exactly the present keys, once each,
// with every byte of their values.
type tally struct {
	keys    Keys
	values  Values
	present *Bitset
	seen    *Bitset
	scratch []byte
}

func (r *Run) newTally(present *Bitset) *tally {
	return &tally{
		keys: r.population.Keys, values: r.population.Values, present: present,
		seen: NewBitset(present.size), scratch: make([]byte, r.population.Values.Size),
	}
}

func (t *tally) entry(key, value []byte) error {
	number, ok := t.keys.Number(key)
	switch {
	case !ok || number >= t.present.size || !t.present.Has(number):
		return fmt.Errorf("%w: key %q was never written", ErrWrong, key)
	case t.seen.Has(number):
		return fmt.Errorf("%w: the stream repeats key %d", ErrWrong, number)
	}
	t.seen.Set(number)
	version, err := t.values.CheckWhole(value, number, t.scratch)
	if err == nil && version != 0 {
		err = fmt.Errorf("%w: key %d has version %d, want 0", ErrWrong, number, version)
	}
	return err
}

// whole returns an error if a key is missing.
func (t *tally) whole() error {
	if got, want := t.seen.Count(), t.present.Count(); got != want {
		return fmt.Errorf("%w: the stream has %d keys, want %d", ErrWrong, got, want)
	}
	return nil
}

// streams reads the whole store for about the given time, and records the rate.
func (r *Run) streams(s stores.Store, present *Bitset, name string, length time.Duration) error {
	streamer, ok := s.(stores.Streamer)
	if !ok {
		return lacking("a parallel read")
	}
	var keys uint64
	var took time.Duration
	for first := true; first || took < length; first = false {
		t := r.newTally(present)
		began := time.Now()
		if err := streamer.Stream(t.entry); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		took += time.Since(began)
		if err := t.whole(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		keys += t.seen.Count()
	}
	r.set(name+"_ns", nanosPerOp(keys, took))
	r.set(name+"_mb_per_s", r.population.UserBytes(keys)/took.Seconds()/megabyte)
	return nil
}

// runStream reads a whole snapshot with several goroutines, again and again.
func runStream(r *Run) error {
	return r.reading(manyReaders, r.job.Pace.Warm, nil, func(s stores.Store, present *Bitset) error {
		return r.streams(s, present, "stream", r.job.Pace.Phase)
	})
}

// runColdStream reads a whole snapshot once in a new process, with no file page in
// memory.
func runColdStream(r *Run) error {
	if err := r.evict(); err != nil {
		return err
	}
	present := r.population.Present()
	c := r.config(false, manyReaders)
	c.Cold = true
	s, err := r.open(c)
	if err != nil {
		return err
	}
	if err := r.streams(s, present, "cold_stream", 0); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}
