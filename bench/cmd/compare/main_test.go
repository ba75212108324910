package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/report"
	"github.com/stoatdb/stoat/bench/internal/stores"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

func mustParse(t *testing.T, args ...string) flags {
	t.Helper()
	f, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFlags_DefaultsOfFullAndQuick(t *testing.T) {
	t.Parallel()
	full := mustParse(t)
	if full.repeats < 3 || full.scale != 1 || full.profile().pace.Phase < 5*time.Second || full.profile().transient {
		t.Errorf("full run is %+v", full)
	}
	quick := mustParse(t, "-quick")
	if quick.repeats != 1 || quick.scale != 0.03 || quick.budget >= 10*time.Minute || !quick.profile().transient {
		t.Errorf("quick run is %+v", quick)
	}
	if f := mustParse(t, "-quick", "-repeats", "2", "-scale", "0.5"); f.repeats != 2 || f.scale != 0.5 {
		t.Errorf("the flags are not kept: %+v", f)
	}
}

func TestFlags_StrayArgumentIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := parse([]string{"-quick", "pebble"}); err == nil || !strings.Contains(err.Error(), `"pebble"`) {
		t.Errorf("%v, want the argument named", err)
	}
}

func TestCompare_NothingToMeasureIsRefused(t *testing.T) {
	t.Parallel()
	// If it measured, it would run this test program as its child.
	ended, end := context.WithCancel(context.Background())
	end()
	for _, args := range [][]string{
		{"-only", "get,limited"}, {"-only", "bbolt,scale"}, {"-only", stores.StoatEncrypted}, {"-repeats", "-1"},
	} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		err := run(ended, append(args, "-quick", "-dir", dir, "-out", out))
		if !errors.Is(err, errNothing) {
			t.Errorf("%q: %v, want errNothing", args, err)
		}
		if _, err := os.Stat(out + recordSuffix); err == nil {
			t.Errorf("%q left a record", args)
		}
	}
}

// recordWith writes a record that has one result with the given status.
func recordWith(t *testing.T, status workload.Status) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, err := comparison.Open(path, comparison.Settings{Began: time.Unix(1e9, 0), Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = w.AddResult(workload.Result{
		Job:    workload.Job{Store: "bbolt", Workload: "get", Data: "1k", Repeat: 1},
		Status: status, Metrics: map[string]float64{"get_1_ns": 1234},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReport_IsWrittenBesideTheResultsAndIntoTheDocument(t *testing.T) {
	t.Parallel()
	path := recordWith(t, workload.OK)
	document := filepath.Join(filepath.Dir(path), "doc.md")
	if err := os.WriteFile(document, []byte("<!-- results: begin -->\n<!-- results: end -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const note = "The machine was shared."
	if err := os.WriteFile(strings.TrimSuffix(path, ".jsonl")+".note.md", []byte(note+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{"-report", path, "-docs", document}); err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(path, ".jsonl")
	for name, wants := range map[string][]string{
		base + ".md":   {"1,234", note},
		base + ".html": {"1,234", note},
		document:       {"1,234", "](r.md)"},
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", filepath.Base(name), want)
			}
		}
	}
}

// benchmarksDocument is the project's page of benchmarks.
var benchmarksDocument = filepath.Join("..", "..", "..", "docs", "benchmarks.md")

func readBenchmarksDocument(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(benchmarksDocument)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// localLink matches the target of a Markdown link to a file of the repository.
var localLink = regexp.MustCompile(`\]\(([^)#:]+)[^):]*\)`)

func TestBenchmarksDocument_FiguresAreThoseOfTheNewestRecord(t *testing.T) {
	t.Parallel()
	document := readBenchmarksDocument(t)
	generated := between(t, document)
	link := localLink.FindStringSubmatch(generated)
	if link == nil {
		t.Fatal("the figures have no link to their full report")
	}
	fullReport := filepath.Join(filepath.Dir(benchmarksDocument), filepath.FromSlash(link[1]))
	rec, base := newestRecord(t)
	if filepath.Base(base)+markdownSuffix != filepath.Base(fullReport) {
		t.Errorf("the figures are of %s, and the newest record is %s: run `make docs`", fullReport, base)
	}
	want, err := report.Splice([]byte(document), rec, link[1])
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != document {
		t.Error("the figures differ from those of the record: run `make docs`")
	}
	var full bytes.Buffer
	if err := report.Markdown(&full, rec); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fullReport)
	if err != nil {
		t.Fatal(err)
	}
	if full.String() != string(text) {
		t.Errorf("%s differs from its record: run `make docs`", filepath.Base(fullReport))
	}
}

// newestRecord returns the newest record of a full run, and its path without
// suffix.
func newestRecord(t *testing.T) (*comparison.Record, string) {
	t.Helper()
	base := newest(filepath.Join("..", "..", resultsDir), func(*comparison.Record) bool { return true })
	rec, err := comparison.Read(base + recordSuffix)
	if err != nil {
		t.Fatal(err)
	}
	return rec, base
}

func TestReadme_FiguresAndLossesAreThoseOfTheNewestRecord(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	rec, _ := newestRecord(t)
	want, err := report.SpliceFigures(readme, rec, "docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, readme) {
		t.Error("the figures differ from those of the newest record: run `make docs`")
	}
	if !bytes.Contains(readme, []byte(" × worse |")) {
		t.Error("the front page names no loss")
	}
}

func TestAgreement_IsThatOfTheNewestRecordAndOfTheDayBefore(t *testing.T) {
	t.Parallel()
	rec, base := newestRecord(t)
	want := filepath.Join(t.TempDir(), "agreement.md")
	if err := writeAgreement(want, base, rec); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join("..", "..", resultsDir, "agreement.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, kept) {
		t.Error("the page of agreement differs from the records: run `make docs`")
	}
}

func TestAgreement_NeedsARunOfAnEarlierDay(t *testing.T) {
	t.Parallel()
	path := recordWith(t, workload.OK)
	page := filepath.Join(filepath.Dir(path), "agreement.md")
	if err := run(context.Background(), []string{"-report", path, "-agreement", page}); err == nil {
		t.Error("one run agrees with itself")
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("the page was written")
	}
}

// between returns the generated part of the document.
func between(t *testing.T, document string) string {
	t.Helper()
	_, rest, ok := strings.Cut(document, "<!-- results: begin -->")
	generated, _, closed := strings.Cut(rest, "<!-- results: end -->")
	if !ok || !closed {
		t.Fatal("the document lacks the marks for results")
	}
	return generated
}

func TestBenchmarksDocument_LinksLeadToFiles(t *testing.T) {
	t.Parallel()
	links := localLink.FindAllStringSubmatch(readBenchmarksDocument(t), -1)
	for _, link := range links {
		if _, err := os.Stat(filepath.Join(filepath.Dir(benchmarksDocument), filepath.FromSlash(link[1]))); err != nil {
			t.Error(err)
		}
	}
	if len(links) < 2 {
		t.Errorf("the document has %d links, want the full report and the component benchmarks", len(links))
	}
}

func TestBenchmarksDocument_IsShortAndNamesEveryStoreAndWorkload(t *testing.T) {
	t.Parallel()
	document := readBenchmarksDocument(t)
	// The rows that miss a target, and the reasons for the worst of them, take a third.
	const most = 4400
	if words := len(strings.Fields(document)); words > most {
		t.Errorf("the document has %d words, want at most %d", words, most)
	}
	for _, w := range workload.All() {
		if !strings.Contains(document, "`"+w.Name+"`") {
			t.Errorf("the document does not name the workload %s", w.Name)
		}
	}
	for _, s := range stores.All() {
		if !strings.Contains(document, "`"+s.Name+"`") {
			t.Errorf("the document does not name the store %s", s.Name)
		}
	}
}

func TestFailures_WrongOrFailedStoreFailsTheCommand(t *testing.T) {
	t.Parallel()
	for status, want := range map[workload.Status]bool{
		workload.OK: false, workload.Skipped: false, workload.Unavailable: false, workload.Killed: false,
		workload.Wrong: true, workload.Failed: true, workload.TimedOut: true,
	} {
		rec, err := comparison.Read(recordWith(t, status))
		if err != nil {
			t.Fatal(err)
		}
		if got := failures(rec) != nil; got != want {
			t.Errorf("status %s fails the command: %t, want %t", status, got, want)
		}
	}
}
