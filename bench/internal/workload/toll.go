package workload

import "github.com/stoatdb/stoat/bench/internal/measure"

// A toll counts what a store uses and writes from a moment on, to the end of
// all its work.
//
// Two counters tell too much of the bytes written, each in its own way. The
// process's counts whole folios of the page cache, so that a page changed
// inside a large one counts for all of it. The device's counts what other
// processes write meanwhile, but no more than the device was given. The
// smaller of the two is nearer to the truth, and the truth on a machine that
// does nothing else.
type toll struct {
	run    *Run
	usage  measure.Usage
	device int64
	known  bool // the device's counter
}

// startToll begins to count, with nothing unwritten left behind by others.
func (r *Run) startToll() (toll, error) {
	if err := measure.FlushFileSystem(r.job.Dir); err != nil {
		return toll{}, err
	}
	t := toll{run: r, usage: measure.ProcessUsage()}
	t.device, t.known = measure.DeviceWritten(r.job.Dir)
	return t, nil
}

// note notes the toll up to now under prefix.
func (t toll) note(prefix string, userBytes float64) error {
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
