package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
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

func TestDefaultsOfFullAndQuick(t *testing.T) {
	t.Parallel()
	full := mustParse(t)
	if full.repeats != 2 || full.scale != 1 || full.budget >= 90*time.Minute || full.dose().passing {
		t.Errorf("full run is %+v", full)
	}
	quick := mustParse(t, "-quick")
	if quick.repeats != 1 || quick.scale != 0.03 || quick.budget >= 10*time.Minute || !quick.dose().passing {
		t.Errorf("quick run is %+v", quick)
	}
	if f := mustParse(t, "-quick", "-repeats", "2", "-scale", "0.5"); f.repeats != 2 || f.scale != 0.5 {
		t.Errorf("what was asked for is not kept: %+v", f)
	}
}

func TestStrayArgumentIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := parse([]string{"-quick", "pebble"}); err == nil || !strings.Contains(err.Error(), `"pebble"`) {
		t.Errorf("%v, want the argument named", err)
	}
}

// recordWith writes a record with one result of that status.
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

func TestReportsAreWrittenBesideTheResultsAndIntoTheDocument(t *testing.T) {
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
	for _, name := range []string{base + ".md", base + ".html", document} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"1,234", note} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %q", filepath.Base(name), want)
			}
		}
	}
}

func TestDocumentOfTheProjectHasAPlaceForResults(t *testing.T) {
	t.Parallel()
	path := recordWith(t, workload.OK)
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := filepath.Join(filepath.Dir(path), "benchmarks.md")
	if err := os.WriteFile(document, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(context.Background(), []string{"-report", path, "-docs", document}); err != nil {
		t.Error(err)
	}
}

func TestWrongOrFailedStoreFailsTheCommand(t *testing.T) {
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
