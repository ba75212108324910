package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/report"
)

// reportOnly writes the reports of an earlier run.
func reportOnly(f flags) error {
	base := strings.TrimSuffix(f.report, recordEnding)
	if info, err := os.Stat(f.report); err == nil && info.IsDir() {
		if base = newest(f.report, func(*comparison.Record) bool { return true }); base == "" {
			return fmt.Errorf("there are no results in %s", f.report)
		}
	}
	rec, err := comparison.Read(base + recordEnding)
	if err != nil {
		return err
	}
	if err := writeReports(base, rec); err != nil || f.docs == "" {
		return err
	}
	document, err := os.ReadFile(f.docs)
	if err != nil {
		return err
	}
	if document, err = report.Splice(document, rec); err != nil {
		return fmt.Errorf("%s: %w", f.docs, err)
	}
	return os.WriteFile(f.docs, document, 0o644)
}

// writeReports writes both reports of a record beside its results.
func writeReports(base string, rec *comparison.Record) error {
	for _, r := range []struct {
		ending string
		write  func(io.Writer, *comparison.Record) error
	}{{".md", report.Markdown}, {".html", report.HTML}} {
		if err := writeReport(base+r.ending, rec, r.write); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "wrote %s\n", base+r.ending)
	}
	return nil
}

func writeReport(path string, rec *comparison.Record, write func(io.Writer, *comparison.Record) error) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f, rec)
}
