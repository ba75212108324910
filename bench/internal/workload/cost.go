package workload

import "github.com/stoatdb/stoat/bench/internal/measure"

// A cost counts the resources that a store uses and the bytes it writes, from
// startCost on.
//
// Two counters of the bytes written both count too much. The process's counter
// counts whole folios of the page cache, even if one page of a folio changed.
// The device's counter includes the writes of other processes. The smaller of
// the two is closer to the truth, and exact on an idle machine.
type cost struct {
	run    *Run
	usage  measure.Usage
	device int64
	known  bool // device is valid
}

// startCost begins to count. It first flushes the file system, so that earlier
// writes do not count.
func (r *Run) startCost() (cost, error) {
	if err := measure.FlushFileSystem(r.job.Dir); err != nil {
		return cost{}, err
	}
	t := cost{run: r, usage: measure.ProcessUsage()}
	t.device, t.known = measure.DeviceWritten(r.job.Dir)
	return t, nil
}

// note records the cost up to now under prefix.
func (t cost) note(prefix string, userBytes float64) error {
	r := t.run
	used := measure.ProcessUsage().Sub(t.usage)
	r.setUsage(prefix, t.usage, userBytes)
	if err := measure.FlushFileSystem(r.job.Dir); err != nil {
		return err
	}
	device, known := measure.DeviceWritten(r.job.Dir)
	if !known || !t.known || !used.Known {
		return nil
	}
	device -= t.device
	r.set(prefix+"device_written_mb", float64(device)/megabyte)
	r.set(prefix+"process_written_mb", float64(used.WrittenBytes)/megabyte)
	r.setWritten(prefix, float64(min(device, used.WrittenBytes)), userBytes)
	return nil
}
