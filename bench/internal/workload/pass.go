package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
)

// firstPass returns a workload that scans once in a new process. The file pages
// are in the page cache, so the pass costs the store's own work at first use:
// mapping, verifying and filling caches.
func firstPass(phase scanPhase) func(*Run) error {
	return func(r *Run) error {
		if err := measure.ReadFiles(r.job.Dir); err != nil {
			return err
		}
		return r.onePass(phase, false)
	}
}

// coldPass returns a workload that scans once in a new process, with no file
// page in memory.
func coldPass(phase scanPhase) func(*Run) error {
	return func(r *Run) error {
		if err := r.evict(); err != nil {
			return err
		}
		return r.onePass(phase, true)
	}
}

// onePass opens the store and scans it once.
func (r *Run) onePass(phase scanPhase, cold bool) error {
	present := r.population.Present()
	c := r.config(false, oneReader)
	c.Cold, c.Scans = cold, true
	opened := time.Now()
	s, err := r.open(c)
	if err != nil {
		return err
	}
	openTook := time.Since(opened)
	w, err := r.newWalk(s, present)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	w.set(phase)
	before := measure.ProcessUsage()
	began := time.Now()
	n, err := w.all(phase.keysOnly)
	took := time.Since(began)
	if err = errors.Join(err, w.close()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", phase.name, err), s.Close())
	}
	r.set(phase.name+"_ns", nanosPerOp(n, took))
	r.set(phase.name+"_with_open_ms", (openTook+took).Seconds()*1e3)
	if phase.whole {
		r.set(phase.name+"_mb_per_s", r.population.UserBytes(n)/took.Seconds()/megabyte)
	}
	r.setUsage("", before, 0)
	return r.close(s)
}

// reopenPasses is how many scans follow the reopening of a load.
const reopenPasses = 4

// runReopen loads, closes the store at once, and opens it again. It scans whole values
// several times while the store may still merge what the load left.
func runReopen(r *Run) error {
	present := r.population.Present()
	s, err := r.open(r.config(true, loadWriters))
	if err != nil {
		return err
	}
	l, err := r.drawLoad(s, loadWriters)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if _, err := r.measured(l, "load_"); err != nil {
		return errors.Join(err, s.Close())
	}
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = r.open(r.config(true, loadWriters)); err != nil {
		return err
	}
	w, err := r.newWalk(s, present)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	w.set(scanPhase{whole: true})
	for pass := 1; pass <= reopenPasses && err == nil; pass++ {
		var n uint64
		began := time.Now()
		n, err = w.all(false)
		r.set(fmt.Sprintf("reopened_%d_ns", pass), nanosPerOp(n, time.Since(began)))
	}
	if err = errors.Join(err, w.close()); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}
