package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// firstRepeat returns what stoat and some peers measured in the first repeat.
func firstRepeat() []workload.Result {
	ok := func(store, work string, metrics map[string]float64) workload.Result {
		return result(store, work, "128", workload.OK, metrics)
	}
	not := func(store string, status workload.Status, detail string) workload.Result {
		r := result(store, "get", "128", status, nil)
		r.Detail = detail
		return r
	}
	return []workload.Result{
		ok("stoat", "get", map[string]float64{"get_1_ns": 500, "get_16_ns": 300}),
		ok("lmdb", "get", map[string]float64{"get_1_ns": 1000, "get_16_ns": 900}),
		ok("bbolt", "get", map[string]float64{"get_1_ns": 3500, "get_16_ns": 2600}),
		ok("pebble", "get", map[string]float64{"get_1_ns": 4000, "get_16_ns": 3690}),
		not("rocksdb", workload.Failed, "it crashed"),
		not("pebble-blob", workload.Skipped, "small values: "+comparison.SameAsPlain),
		not("goleveldb", workload.Skipped, comparison.LoadEnded+"killed"),
		not("badger", workload.Skipped, "needs 9 MB free"),
		{Job: workload.Job{Store: "rocksdb", Workload: "open", Data: "128", Repeat: 1}, Status: workload.Skipped, Detail: "needs 9 MB free"},
		{Job: workload.Job{Store: "bbolt", Workload: "open", Data: "128", Repeat: 1}, Status: workload.Unavailable, Detail: "not built in"},
		ok("stoat", "open", map[string]float64{"open_ms": 1}),
		ok("pebble", "open", map[string]float64{"open_ms": 1}),
		ok("lmdb", "populate", map[string]float64{"load_keys_per_s": 100}),
		ok("pebble", "populate", map[string]float64{"load_keys_per_s": 10000}),
	}
}

func TestOutOfContention_OnlyPeersThatAreFarBehindEverywhere(t *testing.T) {
	t.Parallel()
	rec := record(firstRepeat()...)
	for _, c := range []struct {
		store, work string
		repeat      int
		want        string // a part of the reason; empty: the job must run
	}{
		{"pebble", "get", 2, "at least 4.0 ×"}, // 4.0 and 4.1 times
		{"pebble", "get", 1, ""},
		{"lmdb", "get", 2, ""},
		{"bbolt", "get", 2, ""}, // 3.5 times with one goroutine, but 2.9 times with 16
		{"stoat", "get", 2, ""},
		{"stoat-fast", "get", 2, ""},
		{"pebble-blob", "get", 2, "no target"},
		// These could be the best without what hindered them.
		{"rocksdb", "get", 2, ""},
		{"goleveldb", "get", 2, ""},
		{"badger", "get", 2, ""},
		{"pebble", "open", 2, "no target"},
		{"stoat", "open", 2, ""},
		// No target compares with these, and no repeat has a figure of them.
		{"rocksdb", "open", 2, ""},
		{"bbolt", "open", 2, ""},
		{"goleveldb", "open", 2, ""},
		{"lmdb", "populate", 2, ""}, // its reads need the database of this repeat
		{"pebble", "populate", 2, ""},
	} {
		got := OutOfContention(rec, workload.Job{Store: c.store, Workload: c.work, Data: "128", Repeat: c.repeat})
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s %s, repeat %d: %q, want %q", c.store, c.work, c.repeat, got, c.want)
		}
	}
}

// passedOver returns that pebble did not run the second and third repeat of the gets.
func passedOver() (all []workload.Result) {
	for repeat := 2; repeat <= 3; repeat++ {
		r := result("pebble", "get", "128", workload.Skipped, nil)
		r.Job.Repeat, r.Detail = repeat, "at least 3.4 × behind the best peer: "+comparison.OutOfContention
		all = append(all, r)
	}
	return all
}

func TestReport_APeerOutOfContentionIsNotMissing(t *testing.T) {
	t.Parallel()
	all := append(gets("stoat", 90, 100, 110), gets("lmdb", 1000, 1100, 1200)...)
	rec := record(append(append(all, gets("pebble", 3400)...), passedOver()...)...)
	l := lineOf(t, rec, "get", "128", "get_1_ns")
	if best := l.Cells[l.Best].Store; best != "lmdb" || l.Missing != nil || l.Verdict != Met {
		t.Errorf("best peer %s, missing %q, verdict %s; want lmdb, none and met", best, l.Missing, l.Verdict)
	}
	if skipped, _ := skippedPairs(rec); skipped != 0 {
		t.Errorf("%d pairs are skipped, want none", skipped)
	}
	if text := headline(rec); !strings.Contains(text, "2 jobs of peers did not run again") {
		t.Errorf("the headline is %q", text)
	}
	never := rec.Results[len(rec.Results)-1]
	never.Job.Store = "bbolt" // it did not run before
	rec.Results = append(rec.Results, never)
	if n := spared(rec); n != 2 {
		t.Errorf("%d jobs did not run again, want 2", n)
	}
	if got := troubles(rec); len(got) != 0 {
		t.Errorf("troubles %+v, want none", got)
	}
}

func TestReport_ARowIsUndecidedIfAPeerOutOfContentionIsTheBest(t *testing.T) {
	t.Parallel()
	// In the first repeat the machine was fast, which makes no peer the best.
	all := append(gets("stoat", 90, 400, 410), gets("lmdb", 1000, 4100, 4200)...)
	for ns, want := range map[float64]string{3400: "lmdb met", 900: "pebble undecided"} {
		rec := record(slices.Concat(all, gets("pebble", ns), passedOver())...)
		l := lineOf(t, rec, "get", "128", "get_1_ns")
		if got := fmt.Sprintf("%s %s", l.Cells[l.Best].Store, l.Verdict); got != want {
			t.Errorf("with %v ns of pebble: best peer and verdict %s, want %s", ns, got, want)
		}
	}
}

func TestRevisions_NamesTheFirstAndTheLastOfMany(t *testing.T) {
	t.Parallel()
	for want, all := range map[string][]string{
		"": {""}, "a": {"a", "a"}, "a, later at b": {"a", "b", "b"}, "4 revisions, from a to d": {"a", "b", "c", "d"},
	} {
		rec := &comparison.Record{Settings: comparison.Settings{Machine: comparison.Machine{Revision: all[0]}}}
		for _, revision := range all[1:] {
			rec.LaterMachines = append(rec.LaterMachines, comparison.Machine{Revision: revision})
		}
		if got := revisions(rec); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
