package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
)

// recordOn writes an empty record that began at that second.
func recordOn(t *testing.T, path string, second int64) {
	t.Helper()
	w, err := comparison.Open(path, comparison.Settings{Began: time.Unix(second, 0), Scale: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNewest_IsTheRecordThatBeganLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	every := func(*comparison.Record) bool { return true }
	if got := newest(dir, every); got != "" {
		t.Errorf("an empty directory has the newest record %q", got)
	}
	recordOn(t, filepath.Join(dir, "b.jsonl"), 20)
	recordOn(t, filepath.Join(dir, "a.jsonl"), 30)
	recordOn(t, filepath.Join(dir, "quick.jsonl"), 50)
	if err := os.WriteFile(filepath.Join(dir, "c.jsonl"), []byte("no record\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := newest(dir, every), filepath.Join(dir, "a"); got != want {
		t.Errorf("the newest is %q, want %q", got, want)
	}
	early := func(rec *comparison.Record) bool { return rec.Settings.Began.Unix() < 30 }
	if got, want := newest(dir, early), filepath.Join(dir, "b"); got != want {
		t.Errorf("the newest match is %q, want %q", got, want)
	}
}

func TestEarlierDay_PassesOverRunsOfTheSameDay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noon := func(day int) int64 { return time.Date(2026, 1, day, 12, 0, 0, 0, time.Local).Unix() }
	for name, second := range map[string]int64{"a": noon(1), "b": noon(3), "b-2": noon(3) + 60, "c": noon(5)} {
		recordOn(t, filepath.Join(dir, name+recordSuffix), second)
	}
	for second, want := range map[int64]string{noon(1): "", noon(3) + 60: "a", noon(5): "b-2"} {
		rec := &comparison.Record{Settings: comparison.Settings{Began: time.Unix(second, 0)}}
		got := earlierDay(dir, rec)
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got != want {
			t.Errorf("before second %d there is %q, want %q", second, got, want)
		}
	}
}

func TestFreeName_LeavesEarlierResultsAlone(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "day")
	for _, want := range []string{base, base + "-2", base + "-3"} {
		got := freeName(base)
		if got != want {
			t.Fatalf("free is %q, want %q", got, want)
		}
		recordOn(t, got+recordSuffix, 1)
	}
}

func TestUnfinished_FindsARunOfTheSameSettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recordOn(t, filepath.Join(dir, "a.jsonl"), 10)
	plan, err := comparison.NewPlan("bbolt,open,128", false)
	if err != nil {
		t.Fatal(err)
	}
	plan.Repeats, plan.Scale = 1, 1
	if got, want := unfinished(dir, plan, comparison.Settings{Scale: 1}), filepath.Join(dir, "a"); got != want {
		t.Errorf("%q is resumed, want %q", got, want)
	}
	if got := unfinished(dir, plan, comparison.Settings{Scale: 0.5}); got != "" {
		t.Errorf("%q is resumed at another scale", got)
	}
}

func TestReport_OfADirectoryTakesTheNewestResults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recordOn(t, filepath.Join(dir, "old.jsonl"), 10)
	recordOn(t, filepath.Join(dir, "new.jsonl"), 20)
	if err := reportOnly(flags{report: dir}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new.html")); err != nil {
		t.Error(err)
	}
	if err := reportOnly(flags{report: t.TempDir()}); err == nil {
		t.Error("a directory without results has a report")
	}
}
