package report

import (
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// losing returns the results of rows in which lmdb is better by the given factors. Where higher
// is better, the factor is less than one.
func losing(factors map[reasonKey]float64) []workload.Result {
	var all []workload.Result
	for key, factor := range factors {
		all = append(all,
			result("stoat", key.workload, key.data, workload.OK, map[string]float64{key.metric: factor}),
			result("lmdb", key.workload, key.data, workload.OK, map[string]float64{key.metric: 1}))
	}
	return all
}

func TestLosses_MissedTargetsComeBeforeTrivia(t *testing.T) {
	t.Parallel()
	rec := record(losing(map[reasonKey]float64{
		{"commit", "commit_1_per_s", "128"}:            0.5, // 1.7 asked: short by 3.4
		{"mixed-50", "mixed_per_s", "1k"}:              0.8, // 2 asked: short by 2.5
		{"sorted", "settled_cpu_s", "128"}:             3,   // 1 asked
		{"open", "open_ms", "1k"}:                      1.9, // 3 asked, and trivial
		{"delete", "allocated_mb", "1k-quarter"}:       400, // no target
		{"json", "size_per_live_byte", "json"}:         50,  // no target
		{"churn", "written_per_user_byte", "1k"}:       1.5, // 4 asked
		{"cold-seek", "cold_seek_16_per_s", "limited"}: 0.7, // no target
	})...)
	var got []string
	for _, l := range worstLosses(Tables(rec, storeNames(rec))) {
		got = append(got, l.Metric)
	}
	const want = "commit_1_per_s settled_cpu_s mixed_per_s allocated_mb size_per_live_byte written_per_user_byte cold_seek_16_per_s"
	if text := strings.Join(got, " "); text != want {
		t.Errorf("losses %s, want %s", text, want)
	}
}

func TestLosses_OneRowForEachReason(t *testing.T) {
	t.Parallel()
	rec := record(losing(map[reasonKey]float64{
		{"limited-read", "cold_1_per_s", "limited"}: 0.5,
		{"cold-get", "cold_1_per_s", "limited"}:     0.4,
		{"cold-get", "cold_1_p99_us", "limited"}:    9,
	})...)
	tables := Tables(rec, storeNames(rec))
	if lines := worstLosses(tables); len(lines) != 1 || lines[0].Workload != "cold-get" || lines[0].Metric != "cold_1_per_s" {
		t.Errorf("losses %+v, want the cold get alone", lines)
	}
}

func TestFigures_AreAtMostSixteenRowsAndSayHowManyLossesAreCut(t *testing.T) {
	t.Parallel()
	factors := map[reasonKey]float64{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			factors[reasonKey{row.Workload, row.Metric, row.Data}] = 1e4
			if row.Higher {
				factors[reasonKey{row.Workload, row.Metric, row.Data}] = 1e-4
			}
		}
	}
	rec := record(losing(factors)...)
	f := chooseFigures(Tables(rec, storeNames(rec)))
	if n := len(f.lines()); n > figuresMost {
		t.Errorf("%d rows, want at most %d", n, figuresMost)
	}
	if text := f.note(); f.cut == 0 || !strings.Contains(text, "in the comparison only") || !strings.Contains(text, "without a target") {
		t.Errorf("%d losses cut: %q", f.cut, text)
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
