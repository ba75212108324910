package report

import (
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

func TestMissed_ListsTheFiguresBeyondTheirTargets(t *testing.T) {
	t.Parallel()
	ok := func(store, work string, metrics map[string]float64) workload.Result {
		return result(store, work, "128", workload.OK, metrics)
	}
	rec := record(
		// 0.6 of lmdb, 0.5 asked; and 0.2, 0.55 asked.
		ok("stoat", "get", map[string]float64{"get_1_ns": 600, "get_16_ns": 200, "get_allocations": 0}),
		ok("lmdb", "get", map[string]float64{"get_1_ns": 1000, "get_16_ns": 1000}),
		// 9 ms, 3 asked.
		ok("stoat", "open", map[string]float64{"open_ms": 9}),
		// 1.5 times the rate, 2 asked; a scan by All takes twice as long as by an iterator.
		ok("stoat", "populate", map[string]float64{"load_keys_per_s": 150e3}),
		ok("pebble", "populate", map[string]float64{"load_keys_per_s": 100e3}),
		ok("stoat", "scan", map[string]float64{"scan_whole_ns": 10, "all_whole_ns": 20}),
	)
	var got []string
	for _, l := range missed(Tables(rec, storeNames(rec))) {
		got = append(got, l.Metric+" "+l.figureText())
	}
	const want = "open_ms 9.00, all_whole_ns 2.00 ×, load_keys_per_s 1.50 × pebble, get_1_ns 0.60 × lmdb"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("missed %s, want %s", text, want)
	}
	var out strings.Builder
	if err := Markdown(&out, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## Targets that stoat does not reach", "0.60 × lmdb, target ≤ 0.5 × peer ("} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

func TestMissed_AFailureIsTheFurthest(t *testing.T) {
	t.Parallel()
	rec := record(
		result("stoat", "get", "128", workload.Failed, nil),
		result("lmdb", "get", "128", workload.OK, map[string]float64{"get_1_ns": 1000}),
		result("stoat", "open", "128", workload.OK, map[string]float64{"open_ms": 9}),
	)
	lines := missed(Tables(rec, storeNames(rec)))
	if len(lines) != 2 || lines[0].Metric != "get_1_ns" || lines[0].figureText() != "failed" {
		t.Errorf("missed %+v, want the failure and then the open", lines)
	}
}
