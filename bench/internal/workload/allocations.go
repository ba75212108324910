package workload

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// The reads whose allocations are counted: in bursts short enough that
// goroutines in the background seldom allocate beside one, and as many of them
// as two phases have time for.
const (
	allocationBursts    = 99
	allocationBurstsMin = 3
	allocationReads     = 1000
)

// countAllocations notes how many objects of the Go heap a read takes: the
// median of many bursts, each in a goroutine that does nothing else. The
// runtime counts for the whole process, so a mean would charge the reads with
// whatever the store or the runtime does meanwhile. What a store in C
// allocates is not counted.
func (r *Run) countAllocations(s stores.Store, present *Bitset) error {
	p, err := r.newProbe(s, false)
	if err != nil {
		return err
	}
	rng, choose := newRandom(99), anyKey(present)
	var perRead []float64
	var before, after runtime.MemStats
	began := time.Now()
	for burst := range allocationBursts {
		if burst >= allocationBurstsMin && time.Since(began) > 2*r.job.Pace.Phase {
			break
		}
		runtime.ReadMemStats(&before)
		for range allocationReads {
			number, there := choose(rng)
			if err := p.getOriginal(number, there); err != nil {
				return errors.Join(err, p.close())
			}
		}
		runtime.ReadMemStats(&after)
		perRead = append(perRead, float64(after.Mallocs-before.Mallocs)/allocationReads)
	}
	slices.Sort(perRead)
	r.set("get_allocations", perRead[len(perRead)/2])
	return p.close()
}
