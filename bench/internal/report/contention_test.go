package report

import (
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// readers returns what stoat and some peers measured in the first repeat, on one dataset.
func readers() []workload.Result {
	ok := func(store, work string, metrics map[string]float64) workload.Result {
		return result(store, work, "128", workload.OK, metrics)
	}
	failed := result("rocksdb", "get", "128", workload.Failed, nil)
	skipped := result("goleveldb", "get", "128", workload.Skipped, nil)
	return []workload.Result{
		ok("stoat", "get", map[string]float64{"get_1_ns": 500, "get_16_ns": 300}),
		ok("lmdb", "get", map[string]float64{"get_1_ns": 1000, "get_16_ns": 900}),
		ok("bbolt", "get", map[string]float64{"get_1_ns": 2500, "get_16_ns": 1700}),
		ok("pebble", "get", map[string]float64{"get_1_ns": 3000, "get_16_ns": 2700}),
		failed, skipped,
		ok("stoat", "open", map[string]float64{"open_ms": 1}),
		ok("pebble", "open", map[string]float64{"open_ms": 1}),
		ok("lmdb", "populate", map[string]float64{"load_keys_per_s": 100}),
		ok("bbolt", "populate", map[string]float64{"load_keys_per_s": 1000}),
		ok("pebble", "populate", map[string]float64{"load_keys_per_s": 10000}),
	}
}

func TestOutOfContention_OnlyPeersThatAreFarBehindEverywhere(t *testing.T) {
	t.Parallel()
	rec := record(readers()...)
	for _, c := range []struct {
		store, work string
		repeat      int
		want        string // a part of the reason; empty: the job must run
	}{
		{"pebble", "get", 2, "at least 3.0 ×"},
		{"pebble", "get", 1, ""},
		{"lmdb", "get", 2, ""},
		{"bbolt", "get", 2, ""}, // 1.9 times as far with 16 goroutines
		{"stoat", "get", 2, ""},
		{"stoat-fast", "get", 2, ""},
		{"rocksdb", "get", 2, ""}, // failed: nothing is known
		{"goleveldb", "get", 2, "no target"},
		{"pebble", "open", 2, "no target"},
		{"stoat", "open", 2, ""},
		{"lmdb", "populate", 2, ""}, // far behind in its load, but its reads need the database
		{"pebble", "populate", 2, ""},
		{"bbolt", "populate", 2, ""},
	} {
		got := OutOfContention(rec, workload.Job{Store: c.store, Workload: c.work, Data: "128", Repeat: c.repeat})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %s, repeat %d: %q, want %q", c.store, c.work, c.repeat, got, c.want)
		}
	}
}

func TestReport_APeerOutOfContentionIsNeitherMissingNorTheBest(t *testing.T) {
	t.Parallel()
	all := append(gets("stoat", 900, 1000, 1100), gets("lmdb", 1000, 2500, 2600)...)
	all = append(all, gets("pebble", 2400)...)
	for repeat := 2; repeat <= 3; repeat++ {
		r := result("pebble", "get", "128", workload.Skipped, nil)
		r.Job.Repeat, r.Detail = repeat, "at least 2.4 × as far as the best peer: "+comparison.OutOfContention
		all = append(all, r)
	}
	rec := record(all...)
	// In the one repeat of pebble the machine was fast, so its median is the lowest.
	l := lineOf(t, rec, "get", "128", "get_1_ns")
	if best := l.Cells[l.Best].Store; best != "lmdb" || l.Missing != nil || l.Verdict == Skipped {
		t.Errorf("best peer %s, missing %q, verdict %s; want lmdb, none and a verdict", best, l.Missing, l.Verdict)
	}
	if skipped, _ := skippedPairs(rec); skipped != 0 {
		t.Errorf("%d pairs are skipped, want none", skipped)
	}
	if text := headline(rec); !strings.Contains(text, "In 2 jobs a peer did not run again") {
		t.Errorf("the headline is %q", text)
	}
	if got := troubles(rec); len(got) != 0 {
		t.Errorf("troubles %+v, want none", got)
	}
}
