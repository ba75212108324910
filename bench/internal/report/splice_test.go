package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

const (
	resultsBegin = "<!-- results: begin -->"
	resultsEnd   = "<!-- results: end -->"
)

func TestSplice_ReplacesTheTextBetweenTheMarks(t *testing.T) {
	t.Parallel()
	document := "# Title\n\nbefore\n\n" + resultsBegin + "\nold\n" + resultsEnd + "\n\nafter\n"
	once, err := Splice([]byte(document), fullRecord(), "results/full.md")
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Splice(once, fullRecord(), "results/full.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(twice)
	if text != string(once) {
		t.Error("splicing again changes the document")
	}
	if strings.Contains(text, "\nold\n") || !strings.HasPrefix(text, "# Title\n\nbefore\n") || !strings.HasSuffix(text, "\nafter\n") {
		t.Errorf("the document around the marks is not kept: %.200s", text)
	}
	if !strings.Contains(text, "](results/full.md)") {
		t.Error("the document has no link to the full report")
	}
}

func TestSplice_NeedsBothMarks(t *testing.T) {
	t.Parallel()
	for _, document := range []string{"", resultsBegin, resultsEnd, resultsEnd + resultsBegin} {
		if _, err := Splice([]byte(document), fullRecord(), "full.md"); !errors.Is(err, ErrNoMarks) {
			t.Errorf("%q: %v, want ErrNoMarks", document, err)
		}
	}
}

func TestFigures_HaveOperationsAndMissesAndSayWhatOneRunDecides(t *testing.T) {
	t.Parallel()
	metrics := func(get, open float64) map[string]float64 {
		return map[string]float64{"get_1_ns": get, "open_ms": open, "close_ms": 2 * open}
	}
	rec := record(
		result("stoat", "get", "1k", workload.OK, metrics(500, 0)), result("lmdb", "get", "1k", workload.OK, metrics(1000, 0)),
		result("stoat", "open", "16k", workload.OK, metrics(0, 4)), result("lmdb", "open", "16k", workload.OK, metrics(0, 1)),
	)
	page, err := SpliceFigures([]byte("before\n<!-- figures: begin -->\nformer\n<!-- figures: end -->\nafter\n"), rec, "b.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"before\n<!-- figures: begin -->\n\nFrom the [comparison](b.md)", "<!-- figures: end -->\nafter\n",
		"| 1 KiB × 1 M: get, 1 goroutine, ns (63 % hits) | 500 | lmdb 1,000 | perhaps 2.00 × better |\n",
		"| 16 KiB × 100 k: open after clean close, ms | 4.00 | lmdb 1.00 | perhaps 4.00 × worse |\n",
		"One run decides no target.",
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "former") || strings.Contains(string(page), "close, ms | 8.00") {
		t.Error("the page has its old figures, or a loss without a target")
	}
	if _, err := SpliceFigures([]byte("no marks"), rec, ""); !errors.Is(err, ErrNoMarks) {
		t.Errorf("%v, want ErrNoMarks", err)
	}
}
