// Command compare measures stoat and its peers by the same workloads, each
// pair of store and workload in a process of its own, and writes a report.
//
//	compare                     everything: about an hour and a half
//	compare -quick              a first impression in ten minutes
//	compare -only stoat,lmdb,get,128
//	compare -report results/2026-11-21.jsonl -docs ../docs/benchmarks.md
//
// What it has measured is kept line by line; run again with the same flags,
// it goes on where it was interrupted.
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

// The pace and size of a quick comparison, and of a full one.
const (
	quickScale   = 0.03
	fullRepeats  = 3
	quickJob     = 2 * time.Minute
	fullJob      = 15 * time.Minute
	resultsDir   = "results"
	databasesDir = "compare-databases"
)

func parse(args []string) (flags, error) {
	var f flags
	set := flag.NewFlagSet("compare", flag.ContinueOnError)
	set.StringVar(&f.only, "only", "", "compare only these stores, workloads and datasets, separated by commas (see -list)")
	set.BoolVar(&f.quick, "quick", false, "a small scale, one repeat, short phases")
	set.IntVar(&f.repeats, "repeats", 0, "how often to measure everything; heavy workloads one time in three (default 3, quick 1)")
	set.StringVar(&f.dir, "dir", "", "where the databases go (default a directory of the system's temporary one)")
	set.Float64Var(&f.scale, "scale", 0, "share of the full number of keys (default 1, quick 0.03)")
	set.StringVar(&f.out, "out", "", "path of the results without ending (default results/<date>, quick results/quick)")
	set.BoolVar(&f.fresh, "fresh", false, "begin anew instead of going on with earlier results")
	set.DurationVar(&f.budget, "budget", 0, "begin no further job after this time (default no limit)")
	set.StringVar(&f.report, "report", "", "write the reports of this file of results, and measure nothing")
	set.StringVar(&f.docs, "docs", "", "with -report: also put the tables between the marks of this document")
	set.BoolVar(&f.list, "list", false, "list stores, workloads and datasets")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	if set.NArg() > 0 {
		return f, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	return f.withDefaults(), nil
}

func (f flags) withDefaults() flags {
	if f.repeats == 0 {
		f.repeats = fullRepeats
		if f.quick {
			f.repeats = 1
		}
	}
	if f.scale == 0 {
		f.scale = 1
		if f.quick {
			f.scale = quickScale
		}
	}
	if f.dir == "" {
		f.dir = os.TempDir()
	}
	if f.out == "" {
		f.out = filepath.Join(resultsDir, time.Now().Format("2006-01-02"))
		if f.quick {
			f.out = filepath.Join(resultsDir, "quick")
		}
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
	plan.Repeats, plan.Scale, plan.Pace = f.repeats, f.scale, workload.FullPace()
	jobLimit := fullJob
	if f.quick {
		plan.Pace, jobLimit = workload.QuickPace(), quickJob
	}
	plan.Dir = filepath.Join(f.dir, databasesDir)
	for _, s := range plan.Stores {
		if s.Open == nil {
			fmt.Fprintf(os.Stderr, "%s: %s\n", s.Name, s.Missing)
		}
	}
	w, err := openRecord(f, plan)
	if err != nil {
		return err
	}
	runner := &comparison.Runner{Plan: plan, Record: w, Progress: comparison.NewProgress(os.Stderr), JobLimit: jobLimit}
	if f.budget > 0 {
		runner.Deadline = time.Now().Add(f.budget)
	}
	left, err := runner.Run(ctx)
	runner.Progress.Done()
	return conclude(f, plan, w, left, err)
}

func openRecord(f flags, plan comparison.Plan) (*comparison.Writer, error) {
	path := f.out + ".jsonl"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if f.fresh || f.quick && isComplete(path, plan) {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	w, err := comparison.Open(path, comparison.Settings{
		Began: time.Now(), Scale: plan.Scale, Pace: plan.Pace, Machine: comparison.ThisMachine(f.dir),
	})
	if errors.Is(err, comparison.ErrOtherSettings) {
		return nil, fmt.Errorf("%w; choose another -out, or -fresh to replace it", err)
	}
	if err == nil && len(w.Record.Results) > 0 {
		fmt.Fprintf(os.Stderr, "going on with %s, which has %d results\n", path, len(w.Record.Results))
	}
	return w, err
}

// isComplete returns whether a record has nothing left to measure. A quick
// comparison then begins anew; a full one, which took its time, is kept.
func isComplete(path string, plan comparison.Plan) bool {
	rec, err := comparison.Read(path)
	return err == nil && plan.Missing(rec) == 0
}

// conclude writes the reports, also of a run that was interrupted, and says
// what is missing or went wrong.
func conclude(f flags, plan comparison.Plan, w *comparison.Writer, left int, err error) error {
	if closeErr := w.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if reportErr := writeReports(f.out, w.Record); reportErr != nil {
		err = errors.Join(err, reportErr)
	}
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("interrupted; run it again with the same flags to go on (databases are in %s)", plan.Dir)
	case err != nil:
		return err
	case left > 0:
		fmt.Fprintf(os.Stderr, "%d jobs are left for lack of time; run it again with the same flags to go on\n", left)
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
