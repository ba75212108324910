package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/report"
)

// reportOnly writes the reports of an earlier run.
func reportOnly(f flags) error {
	base := strings.TrimSuffix(f.report, recordSuffix)
	if info, err := os.Stat(f.report); err == nil && info.IsDir() {
		if base = newest(f.report, func(*comparison.Record) bool { return true }); base == "" {
			return fmt.Errorf("there are no results in %s", f.report)
		}
	}
	rec, err := comparison.Read(base + recordSuffix)
	if err != nil {
		return err
	}
	if err := writeReports(base, rec); err != nil {
		return err
	}
	if f.docs != "" {
		if err := updateDocument(f.docs, base+markdownSuffix, rec, report.Splice); err != nil {
			return err
		}
	}
	if f.agreement != "" {
		if err := writeAgreement(f.agreement, base, rec); err != nil {
			return err
		}
	}
	if f.readme == "" {
		return nil
	}
	return updateDocument(f.readme, filepath.Join(filepath.Dir(f.readme), "docs", "benchmarks.md"), rec, report.SpliceFigures)
}

// writeAgreement writes how the verdicts of rec, whose results are at base, agree with those
// of the run before.
func writeAgreement(path, base string, rec *comparison.Record) error {
	before := earlierDay(filepath.Dir(base), rec)
	if before == "" {
		return fmt.Errorf("%s has no results of an earlier day than %s", filepath.Dir(base), filepath.Base(base))
	}
	earlier, err := comparison.Read(before + recordSuffix)
	if err != nil {
		return err
	}
	return writeReport(path, rec, func(w io.Writer, rec *comparison.Record) error {
		return report.Agreement(w, earlier, rec)
	})
}

// updateDocument puts figures of rec into the document at path, with a relative
// link to the file at target.
func updateDocument(path, target string, rec *comparison.Record, splice func([]byte, *comparison.Record, string) ([]byte, error)) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	link, err := relativeLink(path, target)
	if err != nil {
		return err
	}
	if document, err = splice(document, rec, link); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, document, 0o644)
}

// relativeLink returns the link from the document at path to the file at
// target.
func relativeLink(path, target string) (string, error) {
	from, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	to, err := filepath.Abs(target)
	if err != nil {
		return "", err
	}
	link, err := filepath.Rel(from, to)
	return filepath.ToSlash(link), err
}

// markdownSuffix ends the name of a full report in Markdown.
const markdownSuffix = ".md"

// writeReports writes the Markdown and the HTML report beside the results.
func writeReports(base string, rec *comparison.Record) error {
	for _, r := range []struct {
		suffix string
		write  func(io.Writer, *comparison.Record) error
	}{{markdownSuffix, report.Markdown}, {".html", report.HTML}} {
		if err := writeReport(base+r.suffix, rec, r.write); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "wrote %s\n", base+r.suffix)
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
