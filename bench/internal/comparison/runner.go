package comparison

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

	// PassOver returns why a job does not run in a later repeat, or "". Nil runs all jobs.
	PassOver func(*Record, workload.Job) string

	// SkipLimits leaves out the limits of the machine.
	SkipLimits bool

	// JobLimit is the longest time for one job.
	JobLimit time.Duration

	// Deadline is when the run ends; zero means no deadline. The job at work is
	// then ended without a result. A later run can measure the rest.
	Deadline time.Time
}

// errLate says that the deadline ended the run.
var errLate = errors.New("out of time")

// Run executes the steps that the record lacks. It returns how many steps are
// left after the deadline.
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

// all measures the machine and runs every step that is not done.
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

// describe records the configuration of the stores of this run.
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

// take runs one step, records it, and removes the databases that no later step
// uses.
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

// limits measures the machine. A run that resumes does so again, because the machine may
// have changed.
func (r *Runner) limits(ctx context.Context) error {
	if r.SkipLimits {
		return nil
	}
	t := task{Limits: &limitsTask{
		Dir:       r.Plan.Dir,
		Length:    min(r.Plan.Pace.Phase, time.Second),
		SizeBytes: max(int64(r.Plan.Scale*(2<<30)), 64<<20) &^ (1<<20 - 1),
	}}
	r.Progress.say("measuring the limits of the machine")
	var limits map[string]float64
	if err := runChild(ctx, r.Plan.Dir, t, r.JobLimit, &limits); err != nil {
		return fmt.Errorf("measure the limits of the machine: %w", err)
	}
	return r.Record.AddLimits(limits)
}

// step prepares and runs one step. A failure of the store is part of the result;
// an error ends the run.
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
	if r.PassOver != nil {
		if result.Detail = r.PassOver(r.Record.Record, s.Job); result.Detail != "" {
			return result, nil
		}
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
	result, err := r.executeAll(ctx, s)
	if note != "" && result.Status == workload.OK {
		result.Detail = note
	}
	return result, err
}

const (
	// SameAsPlain ends the reason of a step that would repeat the plain store.
	SameAsPlain = "same as the plain store"

	// LoadEnded begins the reason of a step whose load failed.
	LoadEnded = "its load ended "

	// OutOfContention ends the reason of a step of a later repeat whose store was too far
	// behind in the repeats before.
	OutOfContention = "out of contention"
)

// needless returns why a step is skipped: a variant treats this dataset like the
// plain store. It is empty for all other steps.
func needless(s Step) string {
	d, known := workload.FindDataset(s.Job.Data)
	switch {
	case !known:
	case d.Values.Size < s.Info.SmallestValue:
		return fmt.Sprintf("the variant does not separate values below %d bytes: %s", s.Info.SmallestValue, SameAsPlain)
	case s.Info.TextOnly && !d.Values.JSON:
		return "the values do not compress: " + SameAsPlain
	}
	return ""
}

// The most disk space that any of the stores needs, as a multiple of its data.
const (
	spaceFactor       = 6
	spaceFactorGrowth = 4 // nothing is overwritten
	spaceFactorLoaded = 3 // reads of a loaded database: a backup and its restore
)

// enoughSpace returns an error if the disk lacks the space that a step may need. What a load
// replaces counts as free.
func (r *Runner) enoughSpace(s Step) error {
	d, known := workload.FindDataset(s.Job.Data)
	if !known {
		return nil
	}
	free, err := measure.FreeSpace(r.Plan.Dir)
	if err != nil {
		return err
	}
	if s.Workload.Fresh {
		replaced, err := measure.DirSpace(s.Job.Dir)
		if err != nil {
			return err
		}
		free += replaced.AllocatedBytes
	}
	need := int64(d.Scaled(s.Job.Scale)) * int64(workload.KeySize+d.Values.Size)
	switch {
	case d.Growth:
		need *= spaceFactorGrowth
	case !s.Workload.Fresh && !s.Workload.Changes && loaded(s.Job):
		need *= spaceFactorLoaded
	default:
		need *= spaceFactor
	}
	if free < need {
		return fmt.Errorf("needs %d MB free in %s, which has %d MB", need/1e6, r.Plan.Dir, free/1e6)
	}
	return nil
}

// ensureLoaded makes sure that the directory of s holds its dataset. If not, it loads the
// dataset without recording a result. It does so after an interruption. If the store did
// not survive the load under the memory limit, it loads without the limit. A non-empty
// reason says why that is not possible.
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
		switch {
		case s.Limited():
			*note = fmt.Sprintf("loaded without the limit, because the load under it ended %s", last.Status)
		case last.Status == workload.Skipped, last.Status == workload.Unavailable:
			// The load did not run, for lack of space or a library. Now it may.
		default:
			return fmt.Sprintf("%s%s", LoadEnded, last.Status), nil
		}
	}
	if err := removeDatabase(s.Job.Dir); err != nil {
		return "", err
	}
	result, err := r.execute(ctx, loader, false)
	if err != nil {
		return "", err
	}
	if result.Status != workload.OK {
		return fmt.Sprintf("%s%s: %s", LoadEnded, result.Status, result.Detail), nil
	}
	return "", nil
}

// loader returns the step that loads the dataset of s.
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

// loadResult returns the newest result of step s in any repeat, because loads
// do not run in every repeat.
func (r *Runner) loadResult(s Step) (last workload.Result, ok bool) {
	for _, result := range r.Record.Record.Results {
		j := result.Job
		if j.Store == s.Job.Store && j.Workload == s.Job.Workload && j.Data == s.Job.Data {
			last, ok = result, true
		}
	}
	return last, ok
}

// executeAll runs the job of s, in several processes if it measures the first
// pass of a process. Its figures are then medians.
func (r *Runner) executeAll(ctx context.Context, s Step) (workload.Result, error) {
	result, err := r.execute(ctx, s, s.Limited())
	if !s.Workload.FirstPass {
		return result, err
	}
	values := map[string][]float64{}
	for n := 1; ; n++ {
		if err != nil || result.Status != workload.OK {
			return result, err
		}
		for name, v := range result.Metrics {
			values[name] = append(values[name], v)
		}
		if n >= s.Job.Pace.Processes {
			break
		}
		result, err = r.execute(ctx, s, s.Limited())
	}
	for name, v := range values {
		slices.Sort(v)
		result.Metrics[name] = v[len(v)/2]
	}
	result.Metrics["processes"] = float64(max(s.Job.Pace.Processes, 1))
	return result, nil
}

// execute runs the job of s in a child process, if limited under the memory
// limit, and updates the mark of a loaded directory.
func (r *Runner) execute(ctx context.Context, s Step, limited bool) (result workload.Result, err error) {
	job := s.Job
	result = workload.Result{Job: job, Version: s.Info.Version, Began: time.Now()}
	var group *measure.MemoryLimit
	if limited {
		job.MemoryBytes = workload.LimitedBytes(job.Scale)
		if s.Workload.Fourfold {
			job.MemoryBytes = workload.QuarterBytes(job.Scale)
		}
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
			result.Detail = fmt.Sprintf("needs more memory than the limit of %d MB", job.MemoryBytes/1e6)
		}
		result.Seconds = time.Since(result.Began).Seconds()
		return result, nil
	}
	if result.Status == workload.OK && (s.Workload.Keeps || s.Workload.Changes) {
		return result, mark(job)
	}
	return result, nil
}

// judge returns the status of a job that gave no answer.
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

// A mark is a file beside a directory. It says that the directory holds its
// whole dataset, at the scale in the mark.

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

// removeDatabase removes a database, and what a killed workload left beside it.
func removeDatabase(dir string) error {
	return errors.Join(unmark(dir), os.RemoveAll(dir), os.RemoveAll(dir+workload.ScratchSuffix))
}

// copyDatabase copies a closed database into the directory of a job that changes
// it.
func copyDatabase(to workload.Job, from string) error {
	if err := removeDatabase(to.Dir); err != nil {
		return err
	}
	if err := os.CopyFS(to.Dir, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy a database: %w", err)
	}
	return mark(to)
}

// Clean removes the files and databases of a complete run.
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
