// Command compare measures stoat and its peers with the same workloads, and
// writes a report. Each pair of store and workload runs in its own process.
//
//	compare                            the full comparison, in hours
//	compare -quick                     a first impression, within ten minutes
//	compare -smoke                     a correctness check, without useful figures
//	compare -only stoat,lmdb,get,128   some stores, workloads and datasets
//	compare -report results -docs ../docs/benchmarks.md -readme ../README.md -agreement results/agreement.md
//
// Each result is written to disk at once. An interrupted run resumes when it is
// started again with the same flags, by the same revision on the same machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/report"
	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == comparison.ChildCommand {
		exit(comparison.RunChild(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, os.Args[1:]))
}

func exit(err error) {
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// flags are what the user asked for.
type flags struct {
	only      string
	quick     bool
	smoke     bool
	repeats   int
	dir       string
	scale     float64
	out       string
	fresh     bool
	budget    time.Duration
	report    string
	docs      string
	readme    string
	agreement string
	list      bool
}

const (
	resultsDir   = "results"
	databasesDir = "compare-databases"
)

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("compare", flag.ContinueOnError)
	set.StringVar(&f.only, "only", "", "compare only these `names` of stores, workloads and datasets, separated by commas (see -list)")
	set.BoolVar(&f.quick, "quick", false, "run at a small scale, once, with short phases: a first impression that decides no target")
	set.BoolVar(&f.smoke, "smoke", false, "check that everything runs and answers correctly; the figures mean nothing")
	set.IntVar(&f.repeats, "repeats", 0, "measure everything this `number` of times, but growing data only one time in three (default 3, with -quick or -smoke 1)")
	set.StringVar(&f.dir, "dir", "", "create the databases in this `directory` (default the system's temporary directory)")
	set.Float64Var(&f.scale, "scale", 0, "use this `share` of the full number of keys (default 1, with -quick 0.03, with -smoke 0.01)")
	set.StringVar(&f.out, "out", "", "write the results to this `path`, given without suffix (default the path of the run to resume, or results/<date>; with -quick results/quick, with -smoke results/smoke)")
	set.BoolVar(&f.fresh, "fresh", false, "start a new run instead of resuming an earlier one")
	set.DurationVar(&f.budget, "budget", 0, "end after this `time`; a later run can measure the rest (default 12h, with -quick or -smoke 9m)")
	set.StringVar(&f.report, "report", "", "measure nothing; write the reports of this results `file`, or of the newest one in this directory")
	set.StringVar(&f.docs, "docs", "", "with -report: also replace the figures between the marks of this `document`")
	set.StringVar(&f.readme, "readme", "", "with -report: also replace the few figures of this front `page`")
	set.StringVar(&f.agreement, "agreement", "", "with -report: also write this `page` about how the verdicts agree with those of the last run of an earlier day")
	set.BoolVar(&f.list, "list", false, "list the stores, workloads and datasets, and exit")
	set.Usage = func() {
		fmt.Fprint(set.Output(), "Compare stoat with other embedded stores, and write the results and reports.\n\nUsage: compare [flags]\n\n")
		set.PrintDefaults()
	}
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if f.quick && f.smoke {
		return f, errors.New("use either -quick or -smoke, not both")
	}
	return f.withDefaults(), nil
}

func (f flags) withDefaults() flags {
	p := f.profile()
	if f.repeats == 0 {
		f.repeats = p.repeats
	}
	if f.scale == 0 {
		f.scale = p.scale
	}
	if f.budget == 0 {
		f.budget = p.budget
	}
	if f.dir == "" {
		f.dir = os.TempDir()
	}
	return f
}

func run(ctx context.Context, args []string) error {
	f, err := parse(args)
	switch {
	case err != nil:
		return err
	case f.list:
		list()
		return nil
	case f.report != "":
		return reportOnly(f)
	}
	return compare(ctx, f)
}

func list() {
	fmt.Println("stores:")
	for _, s := range stores.All() {
		text := s.Version
		if s.Open == nil {
			text = s.Missing
		}
		fmt.Printf("  %-16s %s\n", s.Name, text)
	}
	fmt.Println("workloads:")
	for _, w := range workload.All() {
		fmt.Printf("  %-16s %s, on %s\n", w.Name, w.Title, strings.Join(w.Data, ", "))
	}
	fmt.Println("datasets, at full scale:")
	for _, d := range workload.Datasets {
		fmt.Printf("  %-16s %s\n", d.Name, d.Title)
	}
}

func compare(ctx context.Context, f flags) error {
	plan, err := comparison.NewPlan(f.only, f.quick)
	if err != nil {
		return err
	}
	if f.smoke {
		plan = plan.Brief()
	}
	p := f.profile()
	plan.Repeats, plan.Scale, plan.Pace = f.repeats, f.scale, p.pace
	plan.Dir = filepath.Join(f.dir, databasesDir)
	if len(plan.Steps()) == 0 {
		return fmt.Errorf("%w: %q, %d repeats", errNothing, f.only, plan.Repeats)
	}
	for _, s := range plan.Stores {
		if s.Open == nil {
			fmt.Fprintf(os.Stderr, "%s: %s\n", s.Name, s.Missing)
		}
	}
	w, base, err := openRecord(f, plan)
	if err != nil {
		return err
	}
	runner := &comparison.Runner{
		Plan: plan, Record: w, Progress: comparison.NewProgress(os.Stderr), JobLimit: p.jobLimit,
		PassOver: report.OutOfContention,
		Deadline: time.Now().Add(f.budget),
	}
	left, err := runner.Run(ctx)
	runner.Progress.Done()
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return conclude(base, plan, w, left, err)
}

// errNothing says that no job matches the flags.
var errNothing = errors.New("this leaves nothing to measure")

// errInterrupted says that a signal ended the run.
var errInterrupted = errors.New("interrupted")

// conclude writes the reports, even of an interrupted run, and reports missing
// and failed jobs.
func conclude(base string, plan comparison.Plan, w *comparison.Writer, left int, err error) error {
	if closeErr := w.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if reportErr := writeReports(base, w.Record); reportErr != nil {
		err = errors.Join(err, reportErr)
	}
	switch {
	case errors.Is(err, errInterrupted):
		return fmt.Errorf("%w; to resume, use the same flags and -out %s (the databases are in %s)", err, base, plan.Dir)
	case err != nil:
		return err
	case left > 0:
		fmt.Fprintf(os.Stderr, "the time is over and %d jobs are left; to resume, use the same flags and -out %s, otherwise remove %s\n", left, base, plan.Dir)
	default:
		if err := plan.Clean(); err != nil {
			return err
		}
	}
	return failures(w.Record)
}

// failures returns an error that lists the jobs that answered wrong, failed or
// timed out.
func failures(rec *comparison.Record) error {
	var bad []string
	for _, r := range rec.Results {
		switch r.Status {
		case workload.Wrong, workload.Failed, workload.TimedOut:
			bad = append(bad, fmt.Sprintf("%s %s %s: %s", r.Job.Store, r.Job.Workload, r.Job.Data, r.Status))
		}
	}
	if bad == nil {
		return nil
	}
	return fmt.Errorf("%d jobs failed: %s", len(bad), strings.Join(bad, "; "))
}
