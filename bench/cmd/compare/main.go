// Command compare measures stoat and its peers by the same workloads, each
// pair of store and workload in a process of its own, and writes a report.
//
//	compare                     everything, within 85 minutes
//	compare -quick              a first impression in ten minutes
//	compare -smoke              whether everything runs and answers right
//	compare -only stoat,lmdb,get,128
//	compare -report results -docs ../docs/benchmarks.md
//
// What it has measured is kept line by line; run again with the same flags, by
// the same revision on the same machine, it goes on where it was interrupted.
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
	only    string
	quick   bool
	smoke   bool
	repeats int
	dir     string
	scale   float64
	out     string
	fresh   bool
	budget  time.Duration
	report  string
	docs    string
	list    bool
}

const (
	resultsDir   = "results"
	databasesDir = "compare-databases"
)

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("compare", flag.ContinueOnError)
	set.StringVar(&f.only, "only", "", "compare only these stores, workloads and datasets, separated by commas (see -list)")
	set.BoolVar(&f.quick, "quick", false, "a small scale, one repeat, short phases")
	set.BoolVar(&f.smoke, "smoke", false, "see whether everything runs and answers right; the figures mean nothing")
	set.IntVar(&f.repeats, "repeats", 0, "how often to measure everything; loads and other heavy workloads one time in three (default 2, quick 1)")
	set.StringVar(&f.dir, "dir", "", "where the databases go (default a directory of the system's temporary one)")
	set.Float64Var(&f.scale, "scale", 0, "share of the full number of keys (default 1, quick 0.03, smoke 0.01)")
	set.StringVar(&f.out, "out", "", "path of the results without ending (default that of the run to go on with, or results/<date>; quick results/quick, smoke results/smoke)")
	set.BoolVar(&f.fresh, "fresh", false, "begin anew instead of going on with earlier results")
	set.DurationVar(&f.budget, "budget", 0, "end after this time, and leave what is missing for another run (default 85m, quick 9m)")
	set.StringVar(&f.report, "report", "", "write the reports of this file of results, or of the newest in this directory, and measure nothing")
	set.StringVar(&f.docs, "docs", "", "with -report: also put the tables between the marks of this document")
	set.BoolVar(&f.list, "list", false, "list stores, workloads and datasets")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if f.quick && f.smoke {
		return f, errors.New("-quick and -smoke exclude each other")
	}
	return f.withDefaults(), nil
}

func (f flags) withDefaults() flags {
	d := f.dose()
	if f.repeats == 0 {
		f.repeats = d.repeats
	}
	if f.scale == 0 {
		f.scale = d.scale
	}
	if f.budget == 0 {
		f.budget = d.budget
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
	d := f.dose()
	plan.Repeats, plan.Scale, plan.Pace = f.repeats, f.scale, d.pace
	plan.Dir = filepath.Join(f.dir, databasesDir)
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
		Plan: plan, Record: w, Progress: comparison.NewProgress(os.Stderr), JobLimit: d.jobLimit,
		Deadline: time.Now().Add(f.budget),
	}
	left, err := runner.Run(ctx)
	runner.Progress.Done()
	if ctx.Err() != nil {
		err = errInterrupted
	}
	return conclude(base, plan, w, left, err)
}

// errInterrupted says that the user ended the run.
var errInterrupted = errors.New("interrupted")

// conclude writes the reports, also of a run that was interrupted, and says
// what is missing or went wrong.
func conclude(base string, plan comparison.Plan, w *comparison.Writer, left int, err error) error {
	if closeErr := w.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if reportErr := writeReports(base, w.Record); reportErr != nil {
		err = errors.Join(err, reportErr)
	}
	switch {
	case errors.Is(err, errInterrupted):
		return fmt.Errorf("%w; run it again with the same flags and -out %s to go on (databases are in %s)", err, base, plan.Dir)
	case err != nil:
		return err
	case left > 0:
		fmt.Fprintf(os.Stderr, "%d jobs are left for lack of time; run it again with the same flags and -out %s to go on, or remove %s\n", left, base, plan.Dir)
	default:
		if err := plan.Clean(); err != nil {
			return err
		}
	}
	return failures(w.Record)
}

// failures makes an error of what no store should do.
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
	return fmt.Errorf("%d jobs did not end well: %s", len(bad), strings.Join(bad, "; "))
}
