package report

import (
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

func TestLosses_OpensOfAMillisecondDoNotHideColdSeeks(t *testing.T) {
	t.Parallel()
	ok := func(store, work, data string, metrics map[string]float64) workload.Result {
		return result(store, work, data, workload.OK, metrics)
	}
	text := figuresOf(t,
		ok("stoat", "open", "1k", map[string]float64{"open_ms": 1.9, "first_get_ms": 2.1}), ok("lmdb", "open", "1k", map[string]float64{"open_ms": 0.1, "first_get_ms": 1}),
		ok("stoat", "counter", "128", map[string]float64{"counter_per_s": 1}), ok("lmdb", "counter", "128", map[string]float64{"counter_per_s": 90}),
		ok("stoat", "commit", "128", map[string]float64{"commit_1_per_s": 1, "commit_1_p99_us": 80}), ok("lmdb", "commit", "128", map[string]float64{"commit_1_per_s": 70, "commit_1_p99_us": 1}),
		ok("stoat", "queue", "128", map[string]float64{"queue_0_per_s": 1}), ok("lmdb", "queue", "128", map[string]float64{"queue_0_per_s": 60}),
		ok("stoat", "json", "json", map[string]float64{"size_per_live_byte": 50}), ok("lmdb", "json", "json", map[string]float64{"size_per_live_byte": 1}),
		ok("stoat", "cold-seek", "limited", map[string]float64{"cold_seek_16_per_s": 10}), ok("lmdb", "cold-seek", "limited", map[string]float64{"cold_seek_16_per_s": 15}),
		ok("stoat", "churn", "1k", map[string]float64{"written_per_user_byte": 3}), ok("lmdb", "churn", "1k", map[string]float64{"written_per_user_byte": 2}),
	)
	if n := strings.Count(text, "**loses:**"); n != lossesShown+len(alwaysShown) {
		t.Errorf("%d losses, want %d", n, lossesShown+len(alwaysShown))
	}
	for _, want := range []string{"seek + 10/s, 16 goroutines", "bytes written per user byte", lossesNote} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "open after clean close") {
		t.Errorf("the page has an open of 1.9 ms:\n%s", text)
	}
}

func TestLosses_EachThatIsAlwaysShownIsARow(t *testing.T) {
	t.Parallel()
	rows := map[metricKey]bool{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			rows[metricKey{row.Workload, row.Metric}] = true
		}
	}
	for key := range alwaysShown {
		if !rows[key] {
			t.Errorf("%+v is always shown and no row", key)
		}
	}
}

func TestStanding_CountsWinsThatMayBeNoise(t *testing.T) {
	t.Parallel()
	for want, ours := range map[string][]float64{
		"first in 1 and not first in 0. The difference may be noise in 1 of": {900, 1100, 950},
		"first in 1 and not first in 0. The difference may be noise in 0 of": {900, 910, 890},
	} {
		rec := record(append(gets("stoat", ours...), gets("lmdb", 1000, 1000, 1000)...)...)
		if got := standing(Tables(rec, storeNames(rec))); !strings.Contains(got, want) {
			t.Errorf("%v: %q lacks %q", ours, got, want)
		}
	}
}

func TestSummary_RepeatsTheCautionsOfTheNote(t *testing.T) {
	t.Parallel()
	rec := record(gets("stoat", 1)...)
	rec.Note = "One.\n\n" + cautionStart + "two.\n\nThree."
	var out strings.Builder
	if err := Summary(&out, rec, "full.md"); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "\n\n"+cautionStart+"two.\n\n") || strings.Contains(text, "Three") {
		t.Errorf("want the caution alone:\n%s", text)
	}
}
