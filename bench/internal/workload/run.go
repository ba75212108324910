package workload

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/stores"
)

// A Run is a job in progress: the store's description, its data, and the result
// so far.
type Run struct {
	job        Job
	info       stores.Info
	population Population
	result     Result

	// harnessBytes is the memory of the harness's own buffers. It is subtracted
	// from the store's memory.
	harnessBytes int64

	// programBytes is the memory that the program has mapped before the store
	// is opened.
	programBytes int64
}

// megabyte is the unit of the sizes in results.
const megabyte = 1e6

// Execute runs one job and returns its result, even if the job fails.
func Execute(job Job) Result {
	r := &Run{job: job, result: Result{Job: job, Began: time.Now(), Metrics: map[string]float64{}}}
	err := r.execute()
	r.result.Status = statusOf(err)
	if err != nil {
		r.result.Detail = err.Error()
	}
	r.result.Seconds = time.Since(r.result.Began).Seconds()
	return r.result
}

// statusOf returns the status for the error of a workload.
func statusOf(err error) Status {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, ErrWrong):
		return Wrong
	case errors.Is(err, errSkipped):
		return Skipped
	}
	return Failed
}

// errSkipped says that a workload cannot run here. The wrapping error says why.
var errSkipped = errors.New("skipped")

// NotBound ends the reason of a job that a store skips because the comparison makes no
// transactions of that store that read and write.
const NotBound = "this comparison binds no transactions of the store that read and write"

// HasNone ends the reason of a job that a store skips because it lacks the feature
// that the workload measures.
const HasNone = "the store has none"

// NotMeasured ends the reason of a job that a store skips although it has the feature that
// the workload measures.
const NotMeasured = "the store has one, which this comparison does not measure"

// lacking returns the error of a store without a feature.
func lacking(feature string) error { return fmt.Errorf("%w: %s: %s", errSkipped, feature, HasNone) }

func (r *Run) execute() error {
	w, ok := Find(r.job.Workload)
	if !ok {
		return fmt.Errorf("no workload %q", r.job.Workload)
	}
	if err := r.prepare(); err != nil {
		return err
	}
	return w.run(r)
}

func (r *Run) prepare() error {
	info, ok := stores.Find(r.job.Store)
	if !ok {
		return fmt.Errorf("no store %q", r.job.Store)
	}
	if info.Open == nil {
		return fmt.Errorf("%w: %s", errSkipped, info.Missing)
	}
	d, err := findDataset(r.job.Data)
	if err != nil {
		return err
	}
	r.info = info
	r.programBytes = measure.ProcessMemory().FileBytes
	r.result.Version = info.Version
	r.population = NewPopulation(d.Scaled(r.job.Scale), d.Values)
	if r.job.MemoryGroup != "" {
		if err := measure.JoinMemoryLimit(r.job.MemoryGroup); err != nil {
			return err
		}
	}
	return os.MkdirAll(r.job.Dir, 0o755)
}

// config returns the configuration of the store for this job.
func (r *Run) config(sync bool, writers int) stores.Config {
	c := stores.Config{
		Dir:           r.job.Dir,
		Sync:          sync,
		CacheBytes:    stores.CacheBytesDefault,
		MemtableBytes: stores.MemtableBytesDefault,
		Writers:       writers,
	}
	if limit := r.job.MemoryBytes; limit > 0 {
		c.LimitedMemory = true
		c.CacheBytes = min(c.CacheBytes, limit/2)
		c.MemtableBytes = max(min(c.MemtableBytes, limit/16), stores.MemtableBytesMin)
	}
	return c
}

// unsynced returns the configuration of the store for a job that writes without syncs.
func (r *Run) unsynced(writers int) stores.Config {
	c := r.config(false, writers)
	c.Unsynced = true
	return c
}

// ScratchSuffix ends the name of the directory for files that a workload makes beside
// its database.
const ScratchSuffix = "-scratch"

// scratch calls use with a new directory beside the database, and then removes it.
func (r *Run) scratch(use func(dir string) error) error {
	dir := r.job.Dir + ScratchSuffix
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err == nil {
		err = use(dir)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// open opens the store and records how long that took.
func (r *Run) open(c stores.Config) (stores.Store, error) {
	began := time.Now()
	s, err := r.info.Open(c)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	r.setMillis("open_ms", time.Since(began))
	return s, nil
}

// close closes the store and records its size, both as the lengths of its files
// and as their allocated blocks. Some stores reserve blocks beyond the end of a
// file; some leave holes.
func (r *Run) close(s stores.Store) error {
	r.result.Stats = s.Stats()
	began := time.Now()
	if err := s.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	r.setMillis("close_ms", time.Since(began))
	return r.noteFiles()
}

// noteFiles records the size of the closed store.
func (r *Run) noteFiles() error {
	space, err := measure.DirSpace(r.job.Dir)
	if err != nil {
		return err
	}
	r.set("size_mb", float64(space.ApparentBytes)/megabyte)
	r.set("allocated_mb", float64(space.AllocatedBytes)/megabyte)
	r.set("files", float64(space.Files))
	return nil
}

func (r *Run) set(name string, value float64) { r.result.Metrics[name] = value }

func (r *Run) setMillis(name string, d time.Duration) { r.set(name, float64(d)/1e6) }

// setQuantiles records the quantiles of durations in the given unit: ns, us or
// ms. The unit ends the names of the metrics.
func (r *Run) setQuantiles(name, unit string, h *measure.Histogram) {
	scale := map[string]float64{"ns": 1, "us": 1e3, "ms": 1e6}[unit]
	for _, q := range []struct {
		label string
		share float64
	}{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}} {
		r.set(name+"_"+q.label+"_"+unit, float64(h.Quantile(q.share))/scale)
	}
	r.set(name+"_max_"+unit, float64(h.Max())/scale)
}

// setMemory records peaks. These are anonymous memory without the harness's buffers, mapped
// file pages without the program's own, and the highest resident size that the system
// counted.
func (r *Run) setMemory(prefix string, p measure.Peaks) {
	m := measure.ProcessMemory()
	if !m.Known {
		return
	}
	r.set(prefix+"peak_anon_mb", float64(max(p.AnonymousBytes-r.harnessBytes, 0))/megabyte)
	r.set(prefix+"peak_file_mb", float64(max(p.FileBytes-r.programBytes, 0))/megabyte)
	r.set(prefix+"peak_rss_mb", float64(m.PeakBytes)/megabyte)
	r.set("harness_mb", float64(r.harnessBytes)/megabyte)
}

// setUsage records the usage since before, and the bytes written per user byte.
func (r *Run) setUsage(prefix string, before measure.Usage, userBytes float64) {
	used := measure.ProcessUsage().Sub(before)
	if !used.Known {
		return
	}
	r.set(prefix+"cpu_s", used.CPUSeconds)
	r.set(prefix+"read_mb", float64(used.ReadBytes)/megabyte)
	r.setWritten(prefix, float64(used.WrittenBytes), userBytes)
}

func (r *Run) setWritten(prefix string, bytes, userBytes float64) {
	r.set(prefix+"written_mb", bytes/megabyte)
	if userBytes > 0 {
		r.set(prefix+"written_per_user_byte", bytes/userBytes)
	}
}

// settle waits until the store is settled and records how long that took.
func (r *Run) settle(name string) {
	took, quiet := measure.WaitIdle(r.job.Dir, r.job.Pace.Quiet, r.job.Pace.Limit)
	r.set(name+"_s", took.Seconds())
	if !quiet {
		r.set(name+"_gave_up", 1)
	}
}
