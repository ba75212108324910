package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

func TestDecide_TheWholeIntervalMustReachTheTarget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high float64
		higher    bool
		want      Verdict
	}{
		{0.3, 0.4, false, Met}, {0.3, 0.5, false, Met}, {0.4, 0.6, false, Undecided}, {0.51, 0.6, false, Missed},
		{0.3, 0.4, true, Missed}, {0.4, 0.5, true, Undecided}, {0.5, 0.6, true, Met}, {0.5, 0.5, true, Met},
	} {
		if got := decide(interval.Interval{Low: c.low, High: c.high}, 0.5, c.higher); got != c.want {
			t.Errorf("%v to %v, higher is better: %t: %s, want %s", c.low, c.high, c.higher, got, c.want)
		}
	}
	if got := decide(interval.Unbounded(), 0.5, false); got != Undecided {
		t.Errorf("no interval: %s, want undecided", got)
	}
}

func TestVerdict_RatiosArePairedByRepeat(t *testing.T) {
	t.Parallel()
	// The machine drifts by a factor of four, and the ratio stays close to 0.4.
	steady := append(gets("stoat", 400, 805, 1595), gets("lmdb", 1000, 2000, 4000)...)
	if l := lineOf(t, record(steady...), "get", "128", "get_1_ns"); l.Verdict != Met || l.Ratios.High > 0.42 {
		t.Errorf("a steady ratio is %s with %+v, want met", l.Verdict, l.Ratios)
	}
	noisy := append(gets("stoat", 400, 700, 1200), gets("lmdb", 1000, 1000, 4000)...)
	if l := lineOf(t, record(noisy...), "get", "128", "get_1_ns"); l.Verdict != Undecided {
		t.Errorf("ratios of 0.4, 0.7 and 0.3 are %s, want undecided", l.Verdict)
	}
	few := append(gets("stoat", 100, 100), gets("lmdb", 1000, 1000)...)
	if l := lineOf(t, record(few...), "get", "128", "get_1_ns"); l.Verdict != Undecided {
		t.Errorf("two repeats are %s, want undecided", l.Verdict)
	}
}

func TestVerdict_ARatioToAnOwnFigureIsOfTheRepeatsOfBoth(t *testing.T) {
	t.Parallel()
	// The second and third repeat were slow, and the load lost its reads there.
	fresh := result("stoat", "populate", "128", workload.OK, map[string]float64{"fresh_get_1_ns": 120})
	l := lineOf(t, record(append(gets("stoat", 100, 400, 400), fresh)...), "populate", "128", "fresh_get_1_ns")
	if l.Figure != 1.2 || l.Verdict != Undecided {
		t.Errorf("the ratio is %v and %s, want 1.2 of the first repeat and undecided", l.Figure, l.Verdict)
	}
}

func TestVerdict_APeerThatWasNotMeasuredLeavesTheTargetOpen(t *testing.T) {
	t.Parallel()
	measured := append(gets("stoat", 100, 100, 100), gets("lmdb", 1000, 1000, 1000)...)
	for _, c := range []struct {
		status workload.Status
		detail string
		want   Verdict
	}{
		{workload.Skipped, "needs 9 MB free in /, which has 3 MB", Skipped},
		{workload.Unavailable, "not built in", Skipped},
		{workload.Skipped, "the variant does not separate values below 256 bytes: " + comparison.SameAsPlain, Met},
		{workload.Skipped, comparison.LoadEnded + "killed", Met},
		{workload.Skipped, comparison.LoadEnded + "unavailable", Skipped}, {workload.Skipped, comparison.LoadEnded + "skipped", Skipped},
		{workload.Skipped, "skipped: " + workload.NotBound, Met}, {workload.Skipped, "skipped: " + notOffered, Met},
		{workload.Skipped, "skipped: a follower: " + workload.NotMeasured, Met},
		{workload.Killed, "", Met},
	} {
		peer := result("pebble", "get", "128", c.status, nil)
		peer.Detail = c.detail
		l := lineOf(t, record(append(slices.Clone(measured), peer)...), "get", "128", "get_1_ns")
		if l.Verdict != c.want {
			t.Errorf("%s %q: %s, want %s", c.status, c.detail, l.Verdict, c.want)
		}
		if c.want == Skipped && !strings.Contains(l.verdict(), "pebble") {
			t.Errorf("the verdict %q does not name the peer", l.verdict())
		}
	}
	// The peer ran something else, and its job in this row is lost.
	other := result("bbolt", "scan", "128", workload.OK, map[string]float64{"scan_ns": 1})
	if l := lineOf(t, record(append(measured, other)...), "get", "128", "get_1_ns"); l.Verdict != Skipped {
		t.Errorf("a peer without a job is %s, want skipped", l.Verdict)
	}
}

func TestTroubles_OldRecordsSayThatTransactionsAreNotBound(t *testing.T) {
	t.Parallel()
	skipped := result("lmdb", "counter", "128", workload.Skipped, nil)
	skipped.Detail = "skipped: " + notOffered
	text := markdownOf(t, record(append(gets("stoat", 1), skipped)...))
	if strings.Contains(text, notOffered) || !strings.Contains(text, workload.NotBound) {
		t.Errorf("the report lacks %q:\n%s", workload.NotBound, text)
	}
}

func TestTroubles_OldRecordsDenyNoFeatureThatAStoreHas(t *testing.T) {
	t.Parallel()
	results := gets("stoat", 1)
	for _, work := range []string{"backup", "checkpoint", "followers"} {
		for _, store := range []string{"lmdb", "goleveldb"} {
			r := result(store, work, "128", workload.Skipped, nil)
			r.Detail = "skipped: " + work + ": " + workload.HasNone
			results = append(results, r)
		}
	}
	text := markdownOf(t, record(results...))
	if has, lacks := strings.Count(text, workload.NotMeasured), strings.Count(text, workload.HasNone); has != 3 || lacks != 3 {
		t.Errorf("%d features are not measured and %d lacking, want 3 and 3:\n%s", has, lacks, text)
	}
}

func TestScore_CountsSkippedTargetsAndPairs(t *testing.T) {
	t.Parallel()
	targets := 0
	for _, s := range Sections() {
		for _, row := range s.Rows {
			if row.Target.Kind != NoTarget {
				targets++
			}
		}
	}
	lost := result("bbolt", "get", "128", workload.Skipped, nil)
	lost.Detail = "no space"
	rec := record(append(append(gets("stoat", 100, 100, 100), gets("lmdb", 1000, 1000, 1000)...), lost)...)
	count := score(rec)
	if count[Met] != 0 || count[Skipped] != targets || len(count) != 1 {
		t.Errorf("%v, want all of %d targets skipped", count, targets)
	}
	if skipped, all := skippedPairs(rec); skipped != 1 || all != 3 {
		t.Errorf("%d of %d pairs are skipped, want 1 of 3", skipped, all)
	}
	if text := headline(rec); !strings.Contains(text, "0 are met") || !strings.Contains(text, "1 of 3 pairs") {
		t.Errorf("the headline is %q", text)
	}
	count = score(record(append(gets("stoat", 100, 100, 100), gets("lmdb", 1000, 1000, 1000)...)...))
	if count[Met] != 1 || count[Skipped] != targets-1 {
		t.Errorf("%v, want one of %d targets met and the others skipped", count, targets)
	}
}

func TestBehind_TheIntervalSaysWhetherItIsNoise(t *testing.T) {
	t.Parallel()
	for slight, ours := range map[bool][]float64{true: {1500, 900, 1300}, false: {1050, 1051, 1049}} {
		rec := record(append(gets("stoat", ours...), gets("lmdb", 1000, 1000, 1000)...)...)
		lines := behind(Tables(rec, storeNames(rec)))
		if len(lines) != 1 || lines[0].slight() != slight {
			t.Errorf("%v against 1000: %+v, want noise to be %t", ours, lines, slight)
		}
	}
}

func TestReport_MarksReadAheadAndExplainsFiguresAboveTheDevice(t *testing.T) {
	t.Parallel()
	rec := record(result("stoat", "limited-read", "limited", workload.OK, map[string]float64{"cold_16_per_s": 900, "cold_1_per_s": 20}))
	rec.Limits = []comparison.Limits{{Values: map[string]float64{
		"read_buffered_depth_16_per_s": 500, "read_direct_depth_16_per_s": 800, "read_direct_depth_1_per_s": 50,
	}}}
	rec.Settings.Machine.ReadAhead = "128"
	var out strings.Builder
	if err := Markdown(&out, rec); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| cold reads/s, settled, 16 goroutines † |", "† depends on the read-ahead of this machine's device, of 128 KiB",
		"Above the device's 800 (random 4 KiB reads at depth 16), stoat 900: " + cachedWhy,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "stoat 20.0:") {
		t.Error("the report explains a figure below the limit")
	}
	if strings.Count(summaryOf(t, gets("stoat", 1)...), readAheadMark) > 0 {
		t.Error("a summary without cold rows explains the mark")
	}
}
