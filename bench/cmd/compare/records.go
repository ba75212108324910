package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// recordSuffix ends the name of a file of results.
const recordSuffix = ".jsonl"

// openRecord opens the record of a run: an unfinished one to resume, or a new
// one. base is the path of its results without the suffix.
func openRecord(f flags, plan comparison.Plan) (w *comparison.Writer, base string, err error) {
	s := comparison.Settings{
		Began: time.Now(), Scale: plan.Scale, Pace: plan.Pace, Machine: comparison.ThisMachine(f.dir),
	}
	base, replace := f.recordOf(plan, s)
	path := base + recordSuffix
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, "", err
	}
	if replace {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, "", err
		}
	}
	w, err = comparison.Open(path, s)
	if errors.Is(err, comparison.ErrOtherSettings) {
		return nil, "", fmt.Errorf("%w; choose another -out, or replace the results with -fresh", err)
	}
	if err == nil && len(w.Record.Results) > 0 {
		fmt.Fprintf(os.Stderr, "resuming %s, which has %d results; -fresh starts a new run\n", path, len(w.Record.Results))
	}
	return w, base, err
}

// recordOf returns where the results of a run go, and whether the run replaces
// the results there. A run resumes an unfinished one. It replaces a full run
// only if both -out and -fresh ask for it.
func (f flags) recordOf(plan comparison.Plan, s comparison.Settings) (base string, replace bool) {
	p := f.profile()
	switch {
	case f.out != "":
		return f.out, f.fresh
	case p.transient:
		base = filepath.Join(resultsDir, p.name)
		rec, err := comparison.Read(base + recordSuffix)
		return base, f.fresh || err != nil || !plan.GoesOnWith(rec, s)
	}
	if !f.fresh {
		if base := unfinished(resultsDir, plan, s); base != "" {
			return base, false
		}
	}
	return freeName(filepath.Join(resultsDir, p.name)), false
}

// unfinished returns the newest record in dir that the plan can resume, or "".
func unfinished(dir string, plan comparison.Plan, s comparison.Settings) string {
	return newest(dir, func(rec *comparison.Record) bool { return plan.GoesOnWith(rec, s) })
}

// newest returns the path, without suffix, of the matching record in dir that
// began last, or "". It ignores transient results and unreadable files.
func newest(dir string, matches func(*comparison.Record) bool) string {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+recordSuffix))
	if err != nil {
		return ""
	}
	var found string
	var began time.Time
	for _, path := range paths {
		base := strings.TrimSuffix(path, recordSuffix)
		if slices.Contains(transientNames, filepath.Base(base)) {
			continue
		}
		rec, err := comparison.Read(path)
		if err == nil && matches(rec) && rec.Settings.Began.After(began) {
			found, began = base, rec.Settings.Began
		}
	}
	return found
}

// earlierDay returns the path, without suffix, of the newest record in dir that began on an
// earlier day than rec, or "".
func earlierDay(dir string, rec *comparison.Record) string {
	day := func(r *comparison.Record) string { return r.Settings.Began.Format(time.DateOnly) }
	return newest(dir, func(r *comparison.Record) bool { return day(r) < day(rec) })
}

// freeName returns base, or base with a number if results of that name exist.
func freeName(base string) string {
	name := base
	for i := 2; ; i++ {
		if _, err := os.Stat(name + recordSuffix); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}
