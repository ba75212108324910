package workload

import (
	"errors"
	"fmt"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

const (
	// manyKeys is the number of random keys of one request.
	manyKeys = 100

	// coldRequests is the number of requests to a store that has nothing in memory.
	// They are few, so that most keys find nothing that an earlier one has read.
	coldRequests = 100
)

// A request reads manyKeys keys that are drawn anew, at once or one by one.
type request struct {
	probe    *probe
	many     stores.ManyGetter // nil reads one by one
	choose   choice
	rng      *random
	numbers  [manyKeys]uint64
	present  [manyKeys]bool
	texts    [manyKeys]Key
	keys     [][]byte
	callback func(i int, value []byte) error
}

// newRequest returns a request that reads at once, if atOnce and the store can.
func (r *Run) newRequest(s stores.Store, choose choice, atOnce bool) (*request, error) {
	p, err := r.newProbe(s, false)
	if err != nil {
		return nil, err
	}
	q := &request{probe: p, choose: choose, rng: newRandom(91)}
	if atOnce {
		q.many, _ = p.reader.(stores.ManyGetter)
	}
	for i := range q.texts {
		q.keys = append(q.keys, q.texts[i][:])
	}
	q.callback = q.check
	return q, nil
}

// run reads the keys of one request.
func (q *request) run() error {
	for i := range q.numbers {
		q.numbers[i], q.present[i] = q.choose(q.rng)
		q.probe.keys.Put(&q.texts[i], q.numbers[i])
	}
	if q.many != nil {
		return q.many.GetMany(q.keys, q.callback)
	}
	for i, number := range q.numbers {
		if err := q.probe.getOriginal(number, q.present[i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *request) check(i int, value []byte) error {
	number, found := q.numbers[i], value != nil
	if found != q.present[i] {
		return fmt.Errorf("%w: key %d of many: found is %t, want %t", ErrWrong, number, found, q.present[i])
	}
	if !found {
		return nil
	}
	version, err := q.probe.values.Check(value, number)
	if err == nil && version != 0 {
		err = fmt.Errorf("%w: key %d of many has version %d, want 0", ErrWrong, number, version)
	}
	return err
}

// manyWays are the two ways to read the keys of a request.
var manyWays = []struct {
	name   string
	atOnce bool
}{{"many", true}, {"one_by_one", false}}

// runMany reads a hundred random keys at once, and one by one.
func runMany(r *Run) error {
	return r.reading(oneReader, r.job.Pace.Warm, nil, func(s stores.Store, present *Bitset) error {
		for _, way := range manyWays {
			q, err := r.newRequest(s, anyKey(present), way.atOnce)
			if err != nil {
				return err
			}
			requests, took, err := timed(oneReader, r.job.Pace.Phase, func(w *worker) error {
				for w.running() {
					if err := q.run(); err != nil {
						return err
					}
				}
				return nil
			})
			if err = errors.Join(err, q.probe.close()); err != nil {
				return err
			}
			r.set(way.name+"_us", nanosPerOp(requests, took)/1e3)
		}
		return nil
	})
}

// runColdMany does the same with present keys in a store that is opened with no file
// page in memory.
func runColdMany(r *Run) error {
	present := r.population.Present()
	for _, way := range manyWays {
		if err := r.evict(); err != nil {
			return err
		}
		c := r.config(false, oneReader)
		c.Cold = true
		s, err := r.open(c)
		if err != nil {
			return err
		}
		took, err := r.coldRequests(s, present, way.atOnce)
		if err != nil {
			return errors.Join(err, s.Close())
		}
		if err := r.close(s); err != nil {
			return err
		}
		r.set("cold_"+way.name+"_us", nanosPerOp(coldRequests, took)/1e3)
	}
	return nil
}

// coldRequests returns the time of all requests.
func (r *Run) coldRequests(s stores.Store, present *Bitset, atOnce bool) (time.Duration, error) {
	q, err := r.newRequest(s, keyThat(true, present), atOnce)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range coldRequests {
		if err := q.run(); err != nil {
			return 0, errors.Join(err, q.probe.close())
		}
	}
	return time.Since(began), q.probe.close()
}
