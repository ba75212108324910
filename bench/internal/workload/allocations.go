package workload

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/stoatdb/stoat/bench/internal/stores"
)

// Allocations are counted in bursts of reads. A burst is short, so that few
// bursts overlap allocations of background goroutines.
const (
	allocationBursts    = 99   // the most bursts; fewer if a phase is too short
	allocationBurstsMin = 3    // the fewest bursts
	allocationReads     = 1000 // reads in a burst
)

// countAllocations records how many objects of the Go heap a read allocates:
// the median of the bursts. The runtime counts for the whole process, so a mean
// would include allocations of background goroutines. Allocations in C do not
// count.
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
		if burst >= allocationBurstsMin && time.Since(began) > r.job.Pace.Phase {
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
