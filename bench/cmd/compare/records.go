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

// recordEnding is that of the files of results.
const recordEnding = ".jsonl"

// openRecord opens the record of a run, an earlier one with which it goes on
// or a new one, and returns the path of its results without the ending.
func openRecord(f flags, plan comparison.Plan) (w *comparison.Writer, base string, err error) {
	s := comparison.Settings{
		Began: time.Now(), Scale: plan.Scale, Pace: plan.Pace, Machine: comparison.ThisMachine(f.dir),
	}
	base, replace := f.recordOf(plan, s)
	path := base + recordEnding
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
		return nil, "", fmt.Errorf("%w; choose another -out, or -fresh to replace it", err)
	}
	if err == nil && len(w.Record.Results) > 0 {
		fmt.Fprintf(os.Stderr, "going on with %s, which has %d results; -fresh begins anew\n", path, len(w.Record.Results))
	}
	return w, base, err
}

// recordOf returns where the results of a run go, and whether what is there
// is to be replaced. A run goes on with what it left unfinished; a full run,
// which took its time, is never replaced unless that is asked for.
func (f flags) recordOf(plan comparison.Plan, s comparison.Settings) (base string, replace bool) {
	d := f.dose()
	switch {
	case f.out != "":
		return f.out, f.fresh
	case d.passing:
		base = filepath.Join(resultsDir, d.name)
		rec, err := comparison.Read(base + recordEnding)
		return base, f.fresh || err != nil || !plan.GoesOnWith(rec, s)
	}
	if !f.fresh {
		if base := unfinished(resultsDir, plan, s); base != "" {
			return base, false
		}
	}
	return freeName(filepath.Join(resultsDir, d.name)), false
}

// unfinished returns the newest record of dir with which a run can go on, or
// nothing.
func unfinished(dir string, plan comparison.Plan, s comparison.Settings) string {
	return newest(dir, func(rec *comparison.Record) bool { return plan.GoesOnWith(rec, s) })
}

// newest returns the path, without ending, of the record in dir that began
// last among those that suit, or nothing. The passing ones do not count, nor
// does a file that cannot be read.
func newest(dir string, suits func(*comparison.Record) bool) string {
	paths, err := filepath.Glob(filepath.Join(dir, "*"+recordEnding))
	if err != nil {
		return ""
	}
	var found string
	var began time.Time
	for _, path := range paths {
		base := strings.TrimSuffix(path, recordEnding)
		if slices.Contains(passingNames, filepath.Base(base)) {
			continue
		}
		rec, err := comparison.Read(path)
		if err == nil && suits(rec) && rec.Settings.Began.After(began) {
			found, began = base, rec.Settings.Began
		}
	}
	return found
}

// freeName returns base, with a number behind it if there are results of that
// name.
func freeName(base string) string {
	name := base
	for i := 2; ; i++ {
		if _, err := os.Stat(name + recordEnding); err != nil {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}
