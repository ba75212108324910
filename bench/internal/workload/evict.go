package workload

import (
	"fmt"

	"github.com/stoatdb/stoat/bench/internal/measure"
)

// evict drops the pages of the database from memory. It reads all files before: a virtual
// disk may have a cache of its own, which would make the first reads after a load slower
// than those of a later job.
func (r *Run) evict() error {
	if err := measure.ReadFiles(r.job.Dir); err != nil {
		return err
	}
	if err := measure.Evict(r.job.Dir); err != nil {
		return fmt.Errorf("%w: %w", errSkipped, err)
	}
	return nil
}
