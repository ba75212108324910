package comparison

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

	// Deadline is when the run ends, zero for when everything is measured. The
	// job then at work is broken off, and whatever is missing can be measured by
	// going on later.
	Deadline time.Time
}

// errLate ends a run at its deadline.
var errLate = errors.New("out of time")

// Run executes what the record does not have yet. It returns how many steps
// the deadline left out.
func (r *Runner) Run(ctx context.Context) (left int, err error) {
	if err := os.MkdirAll(r.Plan.Dir, 0o755); err != nil {
		return 0, err
	}
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.Deadline, errLate)
		defer cancel()
	}
	err = r.all(ctx)
	if errors.Is(err, errLate) {
		return r.Plan.Missing(r.Record.Record), nil
	}
	return 0, err
}

// all measures the machine and takes every step that is not done.
func (r *Runner) all(ctx context.Context) error {
	done := r.Record.Record.done()
	if err := r.describe(); err != nil {
		return err
	}
	if err := r.limits(ctx); err != nil {
		return err
	}
	steps := r.Plan.Steps()
	r.Progress.begin(steps)
	for _, s := range steps {
		if done[s.Key()] {
			r.Progress.skip(s)
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.take(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// describe notes how the stores of this run are configured.
func (r *Runner) describe() error {
	for _, s := range r.Plan.Stores {
		if s.Open == nil {
			continue
		}
		if err := r.Record.NoteStore(StoreNote{Name: s.Name, Version: s.Version, Options: s.Options}); err != nil {
			return err
		}
	}
	return nil
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
	for _, dir := range s.Frees {
		err = errors.Join(err, removeDatabase(dir))
	}
	return err
}

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
	r.Progress.say("measuring the limits of the machine")
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
		switch {
		case d.Name != s.Job.Data:
		case d.Values.Size < s.Info.SmallestValue:
			return fmt.Sprintf("values below %d bytes are not separated: same as the plain store", s.Info.SmallestValue)
		case s.Info.TextOnly && !d.Values.JSON:
			return "values that do not compress: same as the plain store"
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
	if loaded(s.Job) {
		return "", nil
	}
	if original, isCopy := strings.CutSuffix(s.Job.Dir, copySuffix); isCopy {
		source := s
		source.Job.Dir = original
		if reason, err := r.ensureLoaded(ctx, source, note); err != nil || reason != "" {
			return reason, err
		}
		return "", copyDatabase(s.Job, original)
	}
	loader, ok := r.loader(s)
	if !ok {
		return "nothing loads this dataset", nil
	}
	if last, ok := r.loadResult(loader); ok && last.Status != workload.OK {
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

// loadResult returns how the newest load like s ended, in this repeat or in
// one before: loads are not repeated every time.
func (r *Runner) loadResult(s Step) (last workload.Result, ok bool) {
	for _, result := range r.Record.Record.Results {
		j := result.Job
		if j.Store == s.Job.Store && j.Workload == s.Job.Workload && j.Data == s.Job.Data {
			last, ok = result, true
		}
	}
	return last, ok
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
		return result, mark(job)
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

// A directory with a mark beside it holds the whole of its dataset, at the
// scale that the mark tells.

func markOf(dir string) string { return dir + ".loaded" }

func markText(j workload.Job) string { return fmt.Sprintf("scale %v\n", j.Scale) }

// loaded returns whether the directory of a job holds what the job expects.
func loaded(j workload.Job) bool {
	text, err := os.ReadFile(markOf(j.Dir))
	return err == nil && string(text) == markText(j)
}

func mark(j workload.Job) error { return os.WriteFile(markOf(j.Dir), []byte(markText(j)), 0o600) }

func unmark(dir string) error {
	if err := os.Remove(markOf(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func removeDatabase(dir string) error {
	return errors.Join(unmark(dir), os.RemoveAll(dir))
}

// copyDatabase copies a closed database into the directory of a job that would
// spoil it for others.
func copyDatabase(to workload.Job, from string) error {
	if err := removeDatabase(to.Dir); err != nil {
		return err
	}
	if err := os.CopyFS(to.Dir, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy a database: %w", err)
	}
	return mark(to)
}

// Clean removes what a complete run may have left behind.
func (p Plan) Clean() error {
	var err error
	for _, s := range p.Steps() {
		for _, dir := range s.Frees {
			err = errors.Join(err, removeDatabase(dir))
		}
	}
	for _, name := range []string{taskName, answerName} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(p.Dir, name)))
	}
	return err
}
