package comparison

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// A Runner executes a plan.
type Runner struct {
	Plan     Plan
	Record   *Writer
	Progress *Progress

	// JobLimit is the longest time for one job.
	JobLimit time.Duration

	// Deadline is when no further job begins, zero for never. Whatever is
	// missing then can be measured by going on later.
	Deadline time.Time
}

// Run executes what the record does not have yet. It returns how many steps
// the deadline left out.
func (r *Runner) Run(ctx context.Context) (left int, err error) {
	if err := os.MkdirAll(r.Plan.Dir, 0o755); err != nil {
		return 0, err
	}
	done := r.Record.Record.done()
	if err := r.limits(ctx); err != nil {
		return 0, err
	}
	steps := r.Plan.Steps()
	r.Progress.begin(steps)
	for _, s := range steps {
		switch {
		case done[s.Key()]:
			r.Progress.skip(s)
		case r.late():
			left++
		default:
			if err := r.take(ctx, s); err != nil {
				return 0, err
			}
		}
	}
	return left, nil
}

// take runs one step, records it, and removes the database that nobody needs
// any more.
func (r *Runner) take(ctx context.Context, s Step) error {
	r.Progress.start(s)
	result, err := r.step(ctx, s)
	if err != nil {
		return err
	}
	if err := r.Record.AddResult(result); err != nil {
		return err
	}
	r.Progress.finish(s, result)
	if !s.Last {
		return nil
	}
	return removeDatabase(s.Job.Dir)
}

func (r *Runner) late() bool { return !r.Deadline.IsZero() && time.Now().After(r.Deadline) }

// limits measures the machine once in a run.
func (r *Runner) limits(ctx context.Context) error {
	if len(r.Record.Record.Limits) > 0 {
		return nil
	}
	t := task{Limits: &limitsTask{
		Dir:       r.Plan.Dir,
		Length:    r.Plan.Pace.Phase,
		SizeBytes: max(int64(r.Plan.Scale*(2<<30)), 64<<20) &^ (1<<20 - 1),
	}}
	var limits map[string]float64
	if err := runChild(ctx, r.Plan.Dir, t, r.JobLimit, &limits); err != nil {
		return fmt.Errorf("measure the limits of the machine: %w", err)
	}
	return r.Record.AddLimits(limits)
}

// step runs one step with what it needs before it. The error is not the
// store's: it ends the run.
func (r *Runner) step(ctx context.Context, s Step) (workload.Result, error) {
	result := workload.Result{Job: s.Job, Version: s.Info.Version, Began: time.Now(), Status: workload.Skipped}
	if s.Info.Open == nil {
		result.Status, result.Detail = workload.Unavailable, s.Info.Missing
		return result, nil
	}
	if reason := needless(s); reason != "" {
		result.Detail = reason
		return result, nil
	}
	if err := r.enoughSpace(s); err != nil {
		result.Detail = err.Error()
		return result, nil
	}
	var note string
	if s.Workload.Fresh {
		if err := removeDatabase(s.Job.Dir); err != nil {
			return result, err
		}
	} else {
		reason, err := r.ensureLoaded(ctx, s, &note)
		if err != nil {
			return result, err
		}
		if reason != "" {
			result.Detail = reason
			return result, nil
		}
	}
	result, err := r.execute(ctx, s, s.Workload.Limited)
	if note != "" && result.Status == workload.OK {
		result.Detail = note
	}
	return result, err
}

// needless says why a variant of a store has no figures of its own for data
// that it treats like the plain store.
func needless(s Step) string {
	for _, d := range workload.Datasets {
		if d.Name == s.Job.Data && d.Values.Size < s.Info.SmallestValue {
			return fmt.Sprintf("values below %d bytes are not separated: same as the plain store", s.Info.SmallestValue)
		}
	}
	return ""
}

// spaceFactor is how much more than its data a store may need at its worst,
// among those compared.
const spaceFactor = 6

func (r *Runner) enoughSpace(s Step) error {
	for _, d := range workload.Datasets {
		if d.Name != s.Job.Data {
			continue
		}
		free, err := measure.FreeSpace(r.Plan.Dir)
		if err != nil {
			return err
		}
		data := int64(d.Scaled(s.Job.Scale)) * int64(workload.KeySize+d.Values.Size)
		if need := data * spaceFactor; free < need {
			return fmt.Errorf("needs %d MB free in %s, which has %d MB", need/1e6, r.Plan.Dir, free/1e6)
		}
	}
	return nil
}

// ensureLoaded sees to it that the directory holds what a workload of this
// dataset loaded, and loads again, off the record, what is not there: after
// an interruption, or without the limit where a store did not survive it. The
// reason is not empty if the data cannot be had.
func (r *Runner) ensureLoaded(ctx context.Context, s Step, note *string) (reason string, err error) {
	if loaded(s.Job.Dir) {
		return "", nil
	}
	loader, ok := r.loader(s)
	if !ok {
		return "nothing loads this dataset", nil
	}
	if last, ok := r.lastResult(loader); ok && last.Status != workload.OK {
		if !s.Workload.Limited {
			return fmt.Sprintf("its load ended %s", last.Status), nil
		}
		*note = fmt.Sprintf("loaded without the limit, because the load under it ended %s", last.Status)
	}
	if err := removeDatabase(s.Job.Dir); err != nil {
		return "", err
	}
	result, err := r.execute(ctx, loader, false)
	if err != nil {
		return "", err
	}
	if result.Status != workload.OK {
		return fmt.Sprintf("its load ended %s: %s", result.Status, result.Detail), nil
	}
	return "", nil
}

// loader returns the step that loads what s reads.
func (r *Runner) loader(s Step) (Step, bool) {
	for _, w := range workload.All() {
		for _, data := range w.Data {
			if w.Keeps && data == s.Job.Data {
				s.Workload = w
				s.Job.Workload = w.Name
				return s, true
			}
		}
	}
	return Step{}, false
}

func (r *Runner) lastResult(s Step) (workload.Result, bool) {
	for _, result := range r.Record.Record.Results {
		if key(result.Job) == s.Key() {
			return result, true
		}
	}
	return workload.Result{}, false
}

// execute runs the job of s in a child process, under the memory limit if
// asked, and keeps the mark of a loaded directory up to date.
func (r *Runner) execute(ctx context.Context, s Step, limited bool) (result workload.Result, err error) {
	job := s.Job
	result = workload.Result{Job: job, Version: s.Info.Version, Began: time.Now()}
	var group *measure.MemoryLimit
	if limited {
		job.MemoryBytes = workload.LimitedBytes(job.Scale)
		group, err = measure.NewMemoryLimit(fmt.Sprintf("stoat-bench-%d", os.Getpid()), job.MemoryBytes)
		if err != nil {
			result.Status, result.Detail = workload.Skipped, err.Error()
			return result, nil
		}
		defer func() { err = errors.Join(err, group.Close()) }()
		job.MemoryGroup = group.Path()
	}
	if s.Workload.Fresh || s.Workload.Changes {
		if err := unmark(job.Dir); err != nil {
			return result, err
		}
	}
	err = runChild(ctx, r.Plan.Dir, task{Job: &job}, r.JobLimit, &result)
	if ctx.Err() != nil {
		return result, context.Cause(ctx)
	}
	if err != nil {
		result.Status, result.Detail = judge(err), err.Error()
		if group != nil && group.Killed() {
			result.Detail = fmt.Sprintf("needs more than the %d MB of the limit", job.MemoryBytes/1e6)
		}
		result.Seconds = time.Since(result.Began).Seconds()
		return result, nil
	}
	if result.Status == workload.OK && (s.Workload.Keeps || s.Workload.Changes) {
		return result, mark(job.Dir)
	}
	return result, nil
}

// judge tells how a job ended that gave no answer.
func judge(err error) workload.Status {
	var d *death
	switch {
	case errors.Is(err, errTimeout):
		return workload.TimedOut
	case errors.As(err, &d) && d.killed:
		return workload.Killed
	}
	return workload.Failed
}

// A directory with a mark beside it holds the whole of its dataset.

func markOf(dir string) string { return dir + ".loaded" }

func loaded(dir string) bool {
	_, err := os.Stat(markOf(dir))
	return err == nil
}

func mark(dir string) error { return os.WriteFile(markOf(dir), nil, 0o600) }

func unmark(dir string) error {
	if err := os.Remove(markOf(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func removeDatabase(dir string) error {
	return errors.Join(unmark(dir), os.RemoveAll(dir))
}

// Clean removes what a complete run may have left behind.
func (p Plan) Clean() error {
	var err error
	for _, s := range p.Steps() {
		err = errors.Join(err, removeDatabase(s.Job.Dir))
	}
	for _, name := range []string{taskName, answerName} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.Dir, name)))
	}
	return err
}
