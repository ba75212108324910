package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/guard"
	"github.com/stoatdb/stoat/bench/internal/interval"
)

func TestBase_TheRecordedCommitIsWhole(t *testing.T) {
	t.Parallel()
	base, err := readBase(filepath.Join("..", "..", baseFile))
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile("^[0-9a-f]{40}$").MatchString(base) {
		t.Errorf("%q is not the hash of a commit", base)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBase(empty); err == nil {
		t.Error("an empty file names a commit")
	}
}

func TestReport_OnlyALossFails(t *testing.T) {
	t.Parallel()
	judgement := func(name string, v guard.Verdict) guard.Judgement {
		return guard.Judgement{Row: guard.Row{Name: name}, Ratio: 1.12, Interval: interval.Interval{Low: 1.05, High: 1.2}, Verdict: v}
	}
	var out bytes.Buffer
	if err := report(&out, "abc", []guard.Judgement{judgement("get", guard.Undecided), judgement("scan", guard.Fine)}); err != nil {
		t.Error(err)
	}
	err := report(&out, "abc", []guard.Judgement{judgement("get", guard.Undecided), judgement("scan", guard.Loss)})
	if !errors.Is(err, errSlower) || !strings.Contains(err.Error(), "scan by 12.0 %") || strings.Contains(err.Error(), "get") {
		t.Errorf("%v, want the loss of the scan", err)
	}
	if !strings.Contains(out.String(), "1.120  (1.050 to 1.200") {
		t.Errorf("the rows are\n%s", out.String())
	}
}

func TestReplaceModule_TakesTheSourceAndLeavesTheResults(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	dir := filepath.Join(t.TempDir(), "bench")
	if err := replaceModule(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"go.mod": true, "cmd/compare/main.go": true, "internal/guard/doc.go": true, "results": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", name, err == nil, want)
		}
	}
}
