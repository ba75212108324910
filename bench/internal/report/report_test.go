package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/measure"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// result makes a result of one store with the given metrics.
func result(store, work, data string, status workload.Status, metrics map[string]float64) workload.Result {
	return workload.Result{
		Job:     workload.Job{Store: store, Workload: work, Data: data, Repeat: 1},
		Version: "v1", Status: status, Metrics: metrics,
	}
}

func record(results ...workload.Result) *comparison.Record {
	return &comparison.Record{
		Settings: comparison.Settings{Scale: 1},
		Limits:   []comparison.Limits{{Values: map[string]float64{"memory_copy_gb_per_s": 20, "read_depth_16_per_s": 1000}}},
		Results:  results,
	}
}

// lineOf returns the line of a metric.
func lineOf(t *testing.T, rec *comparison.Record, work, data, metric string) Line {
	t.Helper()
	for _, table := range Tables(rec, storeNames(rec)) {
		for _, l := range table.Lines {
			if l.Workload == work && l.Data == data && l.Metric == metric {
				return l
			}
		}
	}
	t.Fatalf("no line for %s %s %s", work, data, metric)
	return Line{}
}

func gets(store string, ns ...float64) []workload.Result {
	var all []workload.Result
	for i, v := range ns {
		r := result(store, "get", "128", workload.OK, map[string]float64{"get_1_ns": v})
		r.Job.Repeat = i + 1
		all = append(all, r)
	}
	return all
}

// thrice returns three repeats of a result.
func thrice(r workload.Result) []workload.Result {
	all := []workload.Result{r, r, r}
	for i := range all {
		all[i].Job.Repeat = i + 1
	}
	return all
}

func TestRatio_IsTheMiddleOfThoseToTheBestPeer(t *testing.T) {
	t.Parallel()
	var all []workload.Result
	all = append(all, gets("stoat", 500, 400, 900)...)
	all = append(all, gets("lmdb", 1000, 2000, 1500)...) // the ratios are 0.5, 0.2 and 0.6
	all = append(all, gets("bbolt", 1200)...)
	l := lineOf(t, record(all...), "get", "128", "get_1_ns")
	if best := l.Cells[l.Best]; best.Store != "lmdb" || best.Median != 1500 {
		t.Errorf("best peer %+v, want lmdb with 1500", best)
	}
	if want := 0.5; math.Abs(l.Ratio-want) > 1e-9 {
		t.Errorf("ratio %v, want %v", l.Ratio, want)
	}
	if want := 1.0; math.Abs(l.Spread-want) > 1e-9 {
		t.Errorf("spread %v, want %v of stoat", l.Spread, want)
	}
}

func TestRatio_OnlyRepeatsThatBothHaveCount(t *testing.T) {
	t.Parallel()
	// The first repeat was slow for both stores, and the peer did not run again.
	rec := record(append(gets("stoat", 1000, 400, 500), gets("lmdb", 900)...)...)
	l := lineOf(t, rec, "get", "128", "get_1_ns")
	if want := 1000.0 / 900; math.Abs(l.Ratio-want) > 1e-9 {
		t.Errorf("ratio %v, want %v of the first repeat", l.Ratio, want)
	}
	if len(behind(Tables(rec, storeNames(rec)))) != 1 {
		t.Error("the row is no loss")
	}
	for name, text := range map[string]string{"summary": summaryOf(t, rec.Results...), "report": markdownOf(t, rec)} {
		for _, want := range []string{"get, 1 goroutine, ns (63 % hits) ‡ ¶ |", "1,000", "lmdb 900 |", sharedNote} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s lacks %q:\n%s", name, want, text)
			}
		}
	}
	if text := summaryOf(t, append(gets("stoat", 1000, 400), gets("lmdb", 900, 500)...)...); strings.Contains(text, sharedMark) {
		t.Errorf("a row of stores with the same repeats is marked:\n%s", text)
	}
}

func TestRatio_TheBestPeerIsClosestInSharedRepeats(t *testing.T) {
	t.Parallel()
	// In the slow first repeat, lmdb was faster than bbolt. It did not run again.
	all := slices.Concat(gets("stoat", 1000, 400, 400), gets("lmdb", 2000), gets("bbolt", 4000, 1600, 1600))
	l := lineOf(t, record(all...), "get", "128", "get_1_ns")
	if best := l.Cells[l.Best]; best.Store != "lmdb" || l.Ratio != 0.5 {
		t.Errorf("best peer %s with a ratio of %v, want lmdb with 0.5", best.Store, l.Ratio)
	}
}

func markdownOf(t *testing.T, rec *comparison.Record) string {
	t.Helper()
	var out bytes.Buffer
	if err := Markdown(&out, rec); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRatio_OfARowInWhichHigherIsBetter(t *testing.T) {
	t.Parallel()
	rate := func(store string, v float64) workload.Result {
		return result(store, "populate", "128", workload.OK, map[string]float64{"load_keys_per_s": v})
	}
	l := lineOf(t, record(slices.Concat(thrice(rate("stoat", 300e3)), thrice(rate("pebble", 200e3)), thrice(rate("lmdb", 50e3)))...), "populate", "128", "load_keys_per_s")
	if best := l.Cells[l.Best]; best.Store != "pebble" || best.Median != 200 {
		t.Errorf("best peer %+v, want pebble with 200 thousand", best)
	}
	if l.Verdict != Missed {
		t.Errorf("1.5 times the best peer is %s, want a target of 2 to be missed", l.Verdict)
	}
}

func TestCell_WrongAnswerSpoilsAllRepeats(t *testing.T) {
	t.Parallel()
	all := append(gets("stoat", 500), gets("lmdb", 1000, 1000)...)
	all = append(all, result("lmdb", "get", "128", workload.Wrong, nil))
	rec := record(append(all, gets("bbolt", 3000)...)...)
	l := lineOf(t, rec, "get", "128", "get_1_ns")
	if best := l.Cells[l.Best]; best.Store != "bbolt" {
		t.Errorf("best peer %s, want bbolt, because lmdb was wrong", best.Store)
	}
	var out bytes.Buffer
	if err := Markdown(&out, rec); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "WRONG") {
		t.Error("the table does not show the wrong answer")
	}
}

func TestCell_FailureLeavesTheOtherRepeats(t *testing.T) {
	t.Parallel()
	all := append(gets("stoat", 500), result("stoat", "get", "128", workload.TimedOut, nil))
	l := lineOf(t, record(append(all, gets("lmdb", 1000)...)...), "get", "128", "get_1_ns")
	if c := l.Cells[0]; !c.ok() || c.Repeats != 1 || c.Median != 500 {
		t.Errorf("cell %+v, want the successful repeat", c)
	}
}

func TestTargets_ShareOfTheDeviceAndOwnFigures(t *testing.T) {
	t.Parallel()
	fresh := map[string]float64{"fresh_get_1_ns": 700, "load_peak_anon_mb": 170}
	rec := record(slices.Concat(
		thrice(result("stoat", "limited-read", "limited", workload.OK, map[string]float64{"cold_16_per_s": 900})),
		thrice(result("stoat", "populate", "128", workload.OK, fresh)),
		gets("stoat", 500, 500, 500))...)
	for _, table := range Tables(rec, storeNames(rec)) {
		for _, l := range table.Lines {
			want, known := map[string]Verdict{
				"cold_16_per_s": Met, "fresh_get_1_ns": Met, "load_peak_anon_mb": Missed,
			}[l.Metric]
			if !known || l.Metric == "cold_16_per_s" && l.PerLimit == "" {
				continue
			}
			if l.Verdict != want {
				t.Errorf("%s: %s, want %s", l.Label, l.Verdict, want)
			}
			if l.PerLimit != "" && math.Abs(l.Cells[0].Median-0.9) > 1e-9 {
				t.Errorf("share of the device %v, want 0.9", l.Cells[0].Median)
			}
		}
	}
}

func TestBehind_WorstFirst(t *testing.T) {
	t.Parallel()
	var all []workload.Result
	for store, f := range map[string]float64{"stoat": 1, "lmdb": 0.5} {
		all = append(all,
			result(store, "get", "128", workload.OK, map[string]float64{"get_1_ns": 1000 * f, "get_16_ns": 1000 / f, "hit_1_ns": 1000 * f * f}),
			result(store, "populate", "128", workload.OK, map[string]float64{"load_keys_per_s": 1000 / f / f / f}))
	}
	rec := record(all...)
	var got []string
	for _, l := range behind(Tables(rec, storeNames(rec))) {
		got = append(got, l.Metric)
	}
	if want := "load_keys_per_s hit_1_ns get_1_ns"; strings.Join(got, " ") != want {
		t.Errorf("behind in %q, want %q", got, want)
	}
}

func TestBehind_OurFailureIsALossAndMissesTheTarget(t *testing.T) {
	t.Parallel()
	for _, status := range []workload.Status{workload.Wrong, workload.Failed, workload.Killed, workload.TimedOut} {
		rec := record(append(gets("lmdb", 1000), result("stoat", "get", "128", status, nil))...)
		l := lineOf(t, rec, "get", "128", "get_1_ns")
		if l.Verdict != Missed {
			t.Errorf("%s: %s, want the target to be missed", status, l.Verdict)
		}
		if lines := behind(Tables(rec, storeNames(rec))); len(lines) == 0 || lines[0].Metric != "get_1_ns" {
			t.Errorf("%s: behind in %+v, want the failed row", status, lines)
		}
		if chart := glanceChart(Tables(rec, storeNames(rec))[0]); !strings.Contains(string(chart), oursOf(l).text()) {
			t.Errorf("%s: the glance does not show it", status)
		}
	}
}

func TestBehind_OurFailedLoadFailsItsReads(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]Verdict{"failed: a panic": Missed, "killed": Missed, "timeout": Missed, "skipped": Skipped} {
		skipped := result("stoat", "get", "128", workload.Skipped, nil)
		skipped.Detail = comparison.LoadEnded + how
		rec := record(append(gets("lmdb", 1000), skipped)...)
		l := lineOf(t, rec, "get", "128", "get_1_ns")
		if l.Verdict != want || l.Lost != (want == Missed) {
			t.Errorf("after a load that ended %s: %s, lost: %t; want %s", how, l.Verdict, l.Lost, want)
		}
	}
}

func TestTables_HaveTheStoresThatRanAndOurVariantIsNoPeer(t *testing.T) {
	t.Parallel()
	text := func(store string, size float64) workload.Result {
		return result(store, "json", "json", workload.OK, map[string]float64{"size_per_live_byte": size})
	}
	skipped := result("pebble-blob", "json", "json", workload.Skipped, nil)
	rec := record(skipped, text("stoat", 1.1), text("stoat-fast", 0.4), text("pebble", 0.5), gets("lmdb", 1000)[0],
		result("bbolt", "json", "json", workload.Failed, nil))
	for _, table := range Tables(rec, storeNames(rec)) {
		if table.Lines[0].Workload != "json" {
			continue
		}
		if got, want := strings.Join(table.Stores, " "), "stoat stoat-fast pebble bbolt"; got != want {
			t.Errorf("stores %q, want %q", got, want)
		}
		l := table.Lines[0]
		if l.Cells[l.Best].Store != "pebble" || len(l.Cells) != len(table.Stores) {
			t.Errorf("the best of %d cells is %+v, want pebble's", len(l.Cells), l.Cells[l.Best])
		}
		return
	}
	t.Error("no table of the text")
}

func TestBehind_AFigureAgainstZeroIsALoss(t *testing.T) {
	t.Parallel()
	settle := func(store string, seconds float64) workload.Result {
		return result(store, "populate", "128", workload.OK, map[string]float64{"settle_s": seconds})
	}
	for ours, want := range map[float64]int{0: 0, 0.001: 0, 1.3: 1} {
		rec := record(settle("stoat", ours), settle("bbolt", 0))
		if lines := behind(Tables(rec, storeNames(rec))); len(lines) != want {
			t.Errorf("%v s against none: %d losses, want %d", ours, len(lines), want)
		}
	}
}

func TestSections_EveryRowNamesAMetricOfItsWorkload(t *testing.T) {
	t.Parallel()
	seen := map[Row]bool{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			w, ok := workload.Find(row.Workload)
			if !ok || !strings.Contains(strings.Join(w.Data, " "), row.Data) {
				t.Errorf("%s, %s: no workload %s on %s", s.Title, row.Label, row.Workload, row.Data)
			}
			if seen[row] {
				t.Errorf("%s, %s: the row is listed twice", s.Title, row.Label)
			}
			seen[row] = true
			if row.Target.Kind == Own && row.Target.Base.Metric == "" {
				t.Errorf("%s: no figure of its own to compare it with", row.Label)
			}
		}
	}
}

func TestSections_LabelsSayWhatElseAFigureCounts(t *testing.T) {
	t.Parallel()
	for _, s := range Sections() {
		for _, row := range s.Rows {
			want := map[metricKey]string{
				{"populate", "settled_cpu_s"}: "first reads", {"unique", "settled_cpu_s"}: "a check", {"sorted", "settled_cpu_s"}: "a check",
				{"churn", "total_s"}: "calls", {"churn", "collect_s"}: "calls",
			}[metricKey{row.Workload, row.Metric}]
			if !strings.Contains(row.Label, want) {
				t.Errorf("%s: %s does not say that it counts %s", s.Title, row.Label, want)
			}
		}
	}
}

func TestReasons_ApplyToTheirRows(t *testing.T) {
	t.Parallel()
	for _, s := range Sections() {
		for _, row := range s.Rows {
			reason := reasonOf(row)
			for _, c := range []struct {
				wrong bool
				why   string
			}{
				{row.Data == "16k" && strings.Contains(reason, "LMDB and bbolt store the value beside its key"), "LMDB has large values in pages of their own"},
				{row.Workload == "commit" && strings.Contains(reason, "append") && !strings.Contains(reason, "Pebble"), "Pebble overwrites old log files"},
				{row.Workload == "reopen" && strings.Contains(reason, "A new process"), "these scans follow the load in its process"},
				{row.Data == "128-2m" && (reason == growingReason || strings.Contains(reason, "More data")), "this is the smallest of the growing data"},
			} {
				if c.wrong {
					t.Errorf("%s, %s: %q, but %s", s.Title, row.Label, reason, c.why)
				}
			}
		}
	}
}

func TestReasons_EachIsOfARow(t *testing.T) {
	t.Parallel()
	rows := map[reasonKey]bool{}
	for _, s := range Sections() {
		for _, row := range s.Rows {
			rows[reasonKey{row.Workload, row.Metric, row.Data}] = true
			rows[reasonKey{row.Workload, row.Metric, ""}] = true
		}
	}
	for key := range reasons {
		if !rows[key] {
			t.Errorf("%+v has a reason and no row", key)
		}
	}
}

func TestMarkdown_NamesEachMachineAndItsLimits(t *testing.T) {
	t.Parallel()
	const share = "write_direct_mb_per_s" // the ingest of 1 KiB is a share of it
	path := filepath.Join(t.TempDir(), "r.jsonl")
	for i, speed := range []float64{1000, 2000} {
		m := comparison.Machine{Processor: fmt.Sprintf("P%d", i), Revision: "a"}
		w, err := comparison.Open(path, comparison.Settings{Scale: 1, Machine: m})
		if err != nil {
			t.Fatal(err)
		}
		r := result("stoat", "ingest", "1k", workload.OK, map[string]float64{"ingest_mb_per_s": speed / 2})
		r.Job.Repeat = i + 1
		if err := errors.Join(w.AddLimits(map[string]float64{share: speed}), w.AddResult(r), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := comparison.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	text := markdownOf(t, rec)
	for _, want := range []string{"Machine 1: 0 processors (P0), ", ". Machine 2: 0 processors (P1), ", "|  | Machine 1 | Machine 2 |", "direct, MB/s | 1,000 | 2,000 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if c := lineOf(t, rec, "ingest", "1k", "ingest_mb_per_s").Cells[0]; c.Min != 0.5 || c.Max != 0.5 {
		t.Errorf("the shares of the two machines are %v to %v, want half of the limit of each", c.Min, c.Max)
	}
	rec.Limits = rec.Limits[:1]
	if c := lineOf(t, rec, "ingest", "1k", "ingest_mb_per_s").Cells[0]; c.Repeats != 1 || c.Max != 0.5 {
		t.Errorf("with the limits of one machine, %d repeats have a share, up to %v, want 1 and 0.5", c.Repeats, c.Max)
	}
	var page bytes.Buffer
	if err := HTML(&page, rec); err != nil || !strings.Contains(page.String(), "<th>Machine 2</th>") {
		t.Errorf("the page does not name the second machine: %v", err)
	}
}

func TestMarkdown_EndsWithEveryRowInWhichAPeerIsFirst(t *testing.T) {
	t.Parallel()
	metrics := func(first, second float64) map[string]float64 {
		return map[string]float64{"open_ms": first, "close_ms": second, "first_get_ms": 1}
	}
	rec := record(
		result("stoat", "open", "1k", workload.OK, metrics(1.02, 30)),
		result("lmdb", "open", "1k", workload.OK, metrics(1, 10)))
	var out bytes.Buffer
	if err := Markdown(&out, rec); err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(out.String(), "## Where stoat is not first\n")
	if !ok || strings.Contains(list, "##") {
		t.Fatal("the report does not end with the list")
	}
	for _, want := range []string{
		"Of 3 rows that compare stoat with a peer, stoat is first in 0 and not first in 2. The rest, 1, is equal or has no ratio. The difference may be noise in 0 of the rows in which it is first, and in 1 of those",
		reasons[reasonKey{"open", "close_ms", ""}] + "\n\n- 1 KiB × 1 M: close, ms. 30.0 against lmdb 10.0 (3.00 ×).",
		"open after clean close, ms. 1.02 against lmdb 1.00 (1.02 ×).",
	} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	if strings.Contains(list, "first get") {
		t.Error("the list has a row in which both are equal")
	}
}

func fullRecord() *comparison.Record {
	rec := record()
	for i, store := range []string{"stoat", "badger", "lmdb"} {
		f := float64(i + 1)
		r := result(store, "populate", "1k", workload.OK, map[string]float64{
			"load_keys_per_s": 1e5 / f, "load_batch_p50_ms": f, "load_batch_p99_ms": 100 * f * f, "load_batch_max_ms": 5000, "load_peak_anon_mb": 10 * f,
		})
		r.Curves = map[string][]measure.Point{"load_keys": {{Seconds: 0, Value: 0}, {Seconds: f, Value: 1e5}}}
		rec.Results = append(rec.Results, r)
	}
	bad := result("bbolt", "get", "1k", workload.Failed, nil)
	bad.Detail = `crash in <main> & "others"`
	rec.Results = append(rec.Results, bad)
	return rec
}

func TestHTML_PageIsSelfContained(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := HTML(&out, fullRecord()); err != nil {
		t.Fatal(err)
	}
	for _, outside := range []string{"http:", "https:", "src=", "<script", "@import", "ZgotmplZ"} {
		if strings.Contains(out.String(), outside) {
			t.Errorf("the page contains %q", outside)
		}
	}
	for _, want := range []string{"Load over time, 1 KiB × 1 M", "1 KiB × 1 M: load, peak anonymous MB", "crash in &lt;main&gt;", historyTitle, "7 h 24 min 45 s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestHTML_PicturesAreXMLWithoutInfinities(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := HTML(&out, fullRecord()); err != nil {
		t.Fatal(err)
	}
	pictures := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(out.String(), -1)
	if len(pictures) < 4 {
		t.Fatalf("%d pictures, want bars, a curve and percentiles", len(pictures))
	}
	for _, p := range pictures {
		if strings.Contains(p, "NaN") || strings.Contains(p, "Inf") {
			t.Errorf("a picture has a position that is not a number: %.200s", p)
		}
		d := xml.NewDecoder(strings.NewReader(p))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("a picture is not XML: %v: %.200s", err, p)
			}
		}
	}
}

func TestTicks_AreRoundAndFew(t *testing.T) {
	t.Parallel()
	for _, a := range []axis{
		{from: 0, to: 1}, {from: 0, to: 7.3}, {from: 0, to: 2e6}, {from: 0, to: 0.004},
		{from: 0.5, to: 5000, log: true}, {from: 3, to: 9, log: true},
	} {
		ticks := a.ticks()
		if len(ticks) > 7 || !a.log && len(ticks) < 3 {
			t.Errorf("%+v has the ticks %v", a, ticks)
		}
		for _, v := range ticks {
			if v < a.from*0.999 || v > a.to*1.001 {
				t.Errorf("%+v has a tick at %v", a, v)
			}
		}
	}
}

func TestNumber_HasThreeDigitsOrGroups(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{
		0: "0.00", 1.234: "1.23", 12.34: "12.3", 123.4: "123", 1234.5: "1,234", 1234567: "1,234,567", math.NaN(): "–",
	} {
		if got := number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}
