package report

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

func summaryOf(t *testing.T, results ...workload.Result) string {
	t.Helper()
	var out bytes.Buffer
	if err := Summary(&out, record(results...), "full.md"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSummary_HasHeadlineRowsWithTheBestPeer(t *testing.T) {
	t.Parallel()
	metrics := func(f float64) map[string]float64 {
		return map[string]float64{"get_1_ns": 1000 * f, "hit_1_ns": 2000 * f}
	}
	text := summaryOf(t,
		result("stoat", "get", "128", workload.OK, metrics(1)),
		result("lmdb", "get", "128", workload.OK, metrics(2)),
		result("bbolt", "get", "128", workload.OK, metrics(3)))
	for _, want := range []string{
		"|  | stoat | best peer | stoat is | target |",
		"| **128 B × 2 M** |  |  |  |  |",
		"| get, 1 goroutine, ns (63 % hits) | 1,000 | lmdb 2,000 | perhaps 2.00 × better | ≤ 0.5 × peer: undecided |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "present keys") || strings.Contains(text, "not first") {
		t.Errorf("the summary has a row that is no headline, or a loss where there is none:\n%s", text)
	}
}

func TestSummary_HasTheWorstLossOfEachReason(t *testing.T) {
	t.Parallel()
	metrics := func(open, first float64) map[string]float64 {
		return map[string]float64{"open_ms": open, "first_get_ms": first}
	}
	var all []workload.Result
	for i, data := range []string{"128", "1k", "16k"} {
		all = append(all,
			result("stoat", "open", data, workload.OK, metrics(float64(2+i), 1)),
			result("lmdb", "open", data, workload.OK, metrics(1, 1)))
	}
	text := summaryOf(t, all...)
	_, list, _ := strings.Cut(text, "### Where stoat is not first\n")
	want := "- 16 KiB × 100 k: open after clean close, ms. 4.00 against lmdb 1.00 (4.00 ×). " + reasons[reasonKey{"open", "open_ms", ""}]
	if !strings.Contains(list, want) || strings.Count(list, "\n- ") != 1 {
		t.Errorf("want %q alone in the list:\n%s", want, list)
	}
}

func TestSummary_SaysThatRowsWithoutAReasonAreNotListed(t *testing.T) {
	t.Parallel()
	// The checkpoint is the worst row, and no reason is recorded for it. Two repeats have no interval.
	var all []workload.Result
	for store, f := range map[string]float64{"stoat": 1, "lmdb": 0.95, "pebble": 0.01} {
		for repeat := 1; repeat <= 2; repeat++ {
			opened := result(store, "open", "128", workload.OK, map[string]float64{"open_ms": f})
			kept := result(store, "checkpoint", "128", workload.OK, map[string]float64{"checkpoint_ms": f})
			if store == "pebble" {
				opened.Status = workload.Failed
			}
			opened.Job.Repeat, kept.Job.Repeat = repeat, repeat
			all = append(all, opened, kept)
		}
	}
	text := summaryOf(t, all...)
	for _, want := range []string{"the worst other rows with a recorded reason", "not first in 2.", "and in 1 of those in which it is not", "There is none in 0 of the former and in 2 of the latter."} {
		if !strings.Contains(text, want) {
			t.Errorf("the summary lacks %q:\n%s", want, text)
		}
	}
}

func TestSummary_SaysEqualAndNothingOfAFailure(t *testing.T) {
	t.Parallel()
	for ours, want := range map[workload.Status]string{workload.OK: "equal", workload.Failed: "–"} {
		text := summaryOf(t, result("stoat", "open", "128", ours, map[string]float64{"open_ms": 1}), result("lmdb", "open", "128", workload.OK, map[string]float64{"open_ms": 1}))
		if want := fmt.Sprintf("| lmdb 1.00 | %s |", want); !strings.Contains(text, want) {
			t.Errorf("status %s: no %q in:\n%s", ours, want, text)
		}
	}
}

func TestSummary_MarksRowsWithoutSomePeersOrRepeats(t *testing.T) {
	t.Parallel()
	commits := func(store string, status workload.Status) workload.Result {
		return result(store, "commit", "128", status, map[string]float64{"commit_1_per_s": 1000})
	}
	get := func(store string, ns float64) []workload.Result {
		return thrice(result(store, "get", "1k", workload.OK, map[string]float64{"get_1_ns": ns}))
	}
	all := slices.Concat(get("stoat", 1), get("lmdb", 2), get("bbolt", 3))
	complete := len(all)
	all = append(all, commits("stoat", workload.OK), commits("lmdb", workload.OK), commits("bbolt", workload.Skipped))
	marked := "commits/s, 1 goroutine " + missingMark + " " + fewMark
	for name, text := range map[string]string{"summary": summaryOf(t, all...), "figures": figuresOf(t, all...)} {
		for _, want := range []string{
			marked + " |", "get, 1 goroutine, ns (63 % hits) |",
			"Durable commits of one key of 128 B: bbolt (in the row of commits/s, 1 goroutine).", fewNote,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, text)
			}
		}
	}
	if text := summaryOf(t, all[:complete]...); strings.Contains(text, missingMark) || strings.Contains(text, fewMark) {
		t.Errorf("a summary of complete rows has marks:\n%s", text)
	}
}

func figuresOf(t *testing.T, results ...workload.Result) string {
	t.Helper()
	var out bytes.Buffer
	if err := Figures(&out, record(results...), "b.md"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestSummary_HasEachMissThatComparesWithPeersAndTheFurthestOfASection(t *testing.T) {
	t.Parallel()
	ok := func(store, work, data string, metrics map[string]float64) workload.Result {
		return result(store, work, data, workload.OK, metrics)
	}
	text := summaryOf(t,
		// 2 of the best peer, 0.55 asked; and 1.02, 1.2 asked.
		ok("stoat", "get", "128", map[string]float64{"get_16_ns": 2000, "hit_1_ns": 9000}), ok("lmdb", "get", "128", map[string]float64{"get_16_ns": 1000, "hit_1_ns": 1000}),
		ok("stoat", "first-ends", "128", map[string]float64{"first_ends_ns": 102}), ok("lmdb", "first-ends", "128", map[string]float64{"first_ends_ns": 100}),
		// 600 ms, 100 asked: the furthest. 170 MB, 160 asked.
		ok("stoat", "populate", "128", map[string]float64{"load_batch_max_ms": 600, "load_peak_anon_mb": 170}))
	for label, want := range map[string]bool{
		"get, 16 goroutines, ns": true, "load, longest batch, ms": true, "load, peak anonymous MB": false,
		"first scan of a process, ends of values, ns per key": false, "get of present keys, 1 goroutine, ns": false,
	} {
		if got := strings.Contains(text, "\n| "+label+" "); got != want {
			t.Errorf("the table has %s: %t, want %t:\n%s", label, got, want, text)
		}
	}
}

func TestSummary_EveryHeadlineIsARow(t *testing.T) {
	t.Parallel()
	rows := map[metricKey]bool{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			rows[metricKey{row.Workload, row.Metric}] = true
		}
	}
	for key := range headlineMetrics {
		if !rows[key] {
			t.Errorf("%+v is a headline and no row", key)
		}
	}
}
