package workload

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

const (
	// followPerSecond is the number of commits per second of the writer.
	followPerSecond = 50_000

	// followKeys is the number of keys that the writer writes in turns.
	followKeys = 1000
)

// runFollow refreshes a follower again and again beside a writer of unsynced one-key
// commits. Each refresh must show everything that was acknowledged before it.
func runFollow(r *Run) error {
	c := r.unsynced(1)
	c.Beside = true
	s, err := r.open(c)
	if err != nil {
		return err
	}
	followed, ok := s.(stores.Followed)
	if !ok {
		return errors.Join(r.noFollower(), s.Close())
	}
	if err := r.follow(s, followed); err != nil {
		return errors.Join(err, s.Close())
	}
	return r.close(s)
}

// noFollower returns the error of a store that has no follower here.
func (r *Run) noFollower() error {
	if why := r.info.Unfollowed; why != "" {
		return fmt.Errorf("%w: a follower: %s: %s", errSkipped, why, NotMeasured)
	}
	return lacking("a follower")
}

func (r *Run) follow(s stores.Store, followed stores.Followed) error {
	w := &followedWriter{run: r, store: s, batch: stores.NewBatch(nil)}
	for range followKeys {
		if err := w.write(); err != nil {
			return err
		}
	}
	f, err := followed.Follow()
	if err != nil {
		return fmt.Errorf("open the follower: %w", err)
	}
	reader, err := f.NewReader()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	err = w.beside(func() error { return r.lags(w, f, reader) })
	return errors.Join(err, reader.Close(), f.Close())
}

// lags measures how long a refresh and a read of the newest commit take.
func (r *Run) lags(w *followedWriter, f stores.Follower, reader stores.Reader) error {
	var h measure.Histogram
	p := &r.population
	one := &probe{reader: reader, keys: p.Keys, values: p.Values}
	one.callback = one.check
	_, _, err := timed(oneReader, r.job.Pace.Phase, func(worker *worker) error {
		for worker.running() {
			least := w.acknowledged.Load()
			began := time.Now()
			if err := f.Refresh(); err != nil {
				return fmt.Errorf("refresh: %w", err)
			}
			number, oldest := (least-1)%followKeys, (least-1)/followKeys
			version, found, err := one.get(number)
			if err != nil {
				return err
			}
			h.Record(time.Since(began))
			// At most one commit beyond the acknowledged ones has been written.
			newest := w.acknowledged.Load() / followKeys
			if !found || version < oldest || version > newest {
				return fmt.Errorf("%w: the follower shows version %d of key %d (found: %t), want %d to %d",
					ErrWrong, version, number, found, oldest, newest)
			}
		}
		return nil
	})
	r.setQuantiles("follow", "us", &h)
	return err
}

// A followedWriter commits one key after the other. Commit n writes version
// n/followKeys of key n%followKeys.
type followedWriter struct {
	run          *Run
	store        stores.Store
	batch        *stores.Batch
	acknowledged atomic.Uint64 // commits
}

func (w *followedWriter) write() error {
	p := &w.run.population
	n := w.acknowledged.Load()
	var text Key
	p.Keys.Put(&text, n%followKeys)
	w.batch.Reset()
	p.Values.Fill(w.batch.Reserve(text[:], p.Values.Size), n%followKeys, n/followKeys)
	if err := w.store.Apply(w.batch); err != nil {
		return fmt.Errorf("commit %d: %w", n, err)
	}
	w.acknowledged.Add(1)
	return nil
}

// beside calls work while the writer commits at its rate.
func (w *followedWriter) beside(work func() error) error {
	var stop atomic.Bool
	var wrote error
	var writer sync.WaitGroup
	first, began := w.acknowledged.Load(), time.Now()
	writer.Go(func() {
		for !stop.Load() && wrote == nil {
			due := uint64(time.Since(began).Seconds() * followPerSecond)
			if w.acknowledged.Load()-first >= due {
				time.Sleep(time.Millisecond / 2)
				continue
			}
			wrote = w.write()
		}
	})
	err := work()
	stop.Store(true)
	writer.Wait()
	w.run.set("follow_commits_per_s", float64(w.acknowledged.Load()-first)/time.Since(began).Seconds())
	return errors.Join(err, wrote)
}
