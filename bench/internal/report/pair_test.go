package report

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// at returns a cell whose repeats were measured at these hours by these revisions.
func at(store string, samples ...sample) Cell {
	c := Cell{Store: store, Status: workload.OK, Repeats: len(samples), Samples: map[int]sample{}}
	var all []float64
	for i, s := range samples {
		c.Samples[i+1] = s
		all = append(all, s.value)
	}
	c.Median = middle(all)
	return c
}

func hour(value, hours float64, revision string) sample {
	return sample{value, time.Unix(0, 0).Add(time.Duration(hours * float64(time.Hour))), comparison.Machine{Revision: revision}}
}

func TestPair_OnlyRepeatsOfOneRevisionSoonAfterEachOther(t *testing.T) {
	t.Parallel()
	mine := at("stoat", hour(1, 0, "a"), hour(2, 10, "a"), hour(3, 20, "b"), hour(4, 30, "b"))
	other := at("lmdb", hour(10, 2, "a"), hour(10, 13, "a"), hour(10, 20, "a"), hour(10, 29, "b"))
	p := pair(mine, other)
	slices.Sort(p.mine)
	if p.apart || p.repeats != 2 || !slices.Equal(p.mine, []float64{1, 4}) {
		t.Errorf("%+v, want the first and the last repeat", p)
	}
}

func TestPair_OnlyRepeatsOfOneMachine(t *testing.T) {
	t.Parallel()
	on := func(value float64, processor string) sample {
		return sample{value, time.Unix(0, 0), comparison.Machine{Processor: processor, Revision: "a"}}
	}
	p := pair(at("stoat", on(1, "slow"), on(2, "fast")), at("lmdb", on(10, "fast"), on(10, "fast")))
	if p.apart || p.repeats != 1 || p.ratio() != 0.2 {
		t.Errorf("%+v, want the second repeat only", p)
	}
}

func TestPair_APeerAtZeroInOneRepeatLeavesTheRatioOfTheMiddles(t *testing.T) {
	t.Parallel()
	p := pair(at("stoat", hour(1, 0, ""), hour(2, 0, ""), hour(3, 0, "")), at("lmdb", hour(0, 0, ""), hour(4, 0, ""), hour(8, 0, "")))
	if p.ratio() != 0.5 || p.interval().Known() {
		t.Errorf("ratio %v in %+v, want 0.5 without an interval", p.ratio(), p.interval())
	}
}

func TestPair_FiguresThatAreApartHaveNoInterval(t *testing.T) {
	t.Parallel()
	mine := at("stoat", hour(1, 0, "b"), hour(1, 1, "b"), hour(1, 2, "b"))
	other := at("lmdb", hour(10, 0, "a"), hour(10, 1, "a"), hour(10, 2, "a"))
	if p := pair(mine, other); !p.apart || p.few() || p.interval().Known() {
		t.Errorf("%+v, want three repeats that are apart, without an interval", p)
	}
	later := Cell{Samples: map[int]sample{7: hour(10, 0, "b")}}
	if p := pair(mine, later); !p.apart || !p.few() || len(p.mine) != 3 || len(p.other) != 1 {
		t.Errorf("%+v, want all figures of repeats that only one has", p)
	}
}

func TestMiddle_OfTwoIsTheGeometricMean(t *testing.T) {
	t.Parallel()
	for want, values := range map[float64][]float64{7: {7}, 6: {4, 9}, 5: {1, 5, 100}} {
		if got := middle(values); got != want {
			t.Errorf("the middle of %v is %v, want %v", values, got, want)
		}
	}
	// Ratios of 1.53 and 0.72 are about 1.05 together.
	p := pair(at("stoat", hour(306, 0, ""), hour(144, 0, "")), at("pebble", hour(200, 0, ""), hour(200, 0, "")))
	if got := p.ratio(); math.Abs(got-1.05) > 0.01 {
		t.Errorf("the ratio is %v, want 1.05", got)
	}
}

func TestPair_TheRatioIsTheMiddleOfTheRatiosOfTheRepeats(t *testing.T) {
	t.Parallel()
	// The second repeat is of another revision, on a faster day.
	mine := at("stoat", hour(100, 0, "a"), hour(20, 9, "b"), hour(110, 18, "a"))
	other := at("lmdb", hour(200, 0, "a"), hour(50, 9, "b"), hour(100, 18, "a"))
	if got := pair(mine, other).ratio(); got != 0.5 {
		t.Errorf("the ratio is %v, want the middle of 0.4, 0.5 and 1.1", got)
	}
	apart := pair(
		at("stoat", hour(100, 0, "a"), hour(200, 0, "a"), hour(900, 0, "a")),
		at("lmdb", hour(100, 0, "b"), hour(400, 0, "b"), hour(100, 0, "b")))
	if got := apart.ratio(); got != 2 {
		t.Errorf("the ratio of figures that are apart is %v, want that of their middles, 2", got)
	}
	if got := pair(at("stoat", hour(1, 0, "a")), at("lmdb", hour(0, 0, "a"))).ratio(); !math.IsInf(got, 1) {
		t.Errorf("the ratio to zero is %v, want infinity", got)
	}
}

// resumed returns a record of which one revision measured lmdb, and a later one stoat.
func resumed(t *testing.T) *comparison.Record {
	t.Helper()
	path := filepath.Join(t.TempDir(), "r.jsonl")
	var rec *comparison.Record
	for revision, results := range [][]workload.Result{gets("lmdb", 1000, 1000, 1000), gets("stoat", 100, 100, 100)} {
		s := comparison.Settings{Scale: 1, Machine: comparison.Machine{Revision: string(rune('a' + revision))}}
		w, err := comparison.Open(path, s)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if err := w.AddResult(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		rec = w.Record
	}
	return rec
}

func TestVerdict_FiguresOfTwoRevisionsDecideNothing(t *testing.T) {
	t.Parallel()
	rec := resumed(t)
	l := lineOf(t, rec, "get", "128", "get_1_ns")
	if l.Verdict != Undecided || !l.Apart || l.Ratio != 0.1 || l.Ratios.Known() {
		t.Errorf("%s, apart: %t, ratio %v in %+v; want undecided, 0.1 and no interval", l.Verdict, l.Apart, l.Ratio, l.Ratios)
	}
	if text := markdownOf(t, rec); !strings.Contains(text, "(63 % hits) "+apartMark+" |") || !strings.Contains(text, apartNote) {
		t.Errorf("the report does not mark the row:\n%s", text)
	}
}

func TestVerdict_EveryPeerMustLeaveTheTargetMet(t *testing.T) {
	t.Parallel()
	// The target is at most half of a peer's time.
	steady := append(gets("stoat", 100, 100, 100), gets("lmdb", 300, 300, 300)...)
	for _, c := range []struct {
		name  string
		bbolt []float64
		want  Verdict
	}{
		{"far behind in three repeats", []float64{900, 900, 900}, Met},
		{"behind, and too noisy to say", []float64{301, 250, 2000}, Undecided},
		{"far behind in one repeat", []float64{400}, Met},
		{"in one repeat within a factor that breaks the target", []float64{399}, Undecided},
	} {
		l := lineOf(t, record(append(slices.Clone(steady), gets("bbolt", c.bbolt...)...)...), "get", "128", "get_1_ns")
		if l.Verdict != c.want {
			t.Errorf("%s: %s beside the best peer %s, want %s", c.name, l.Verdict, l.Cells[l.Best].Store, c.want)
		}
	}
}

func TestVerdict_APeerWithEnoughRepeatsMissesATargetThatAnotherLeavesOpen(t *testing.T) {
	t.Parallel()
	all := slices.Concat(gets("stoat", 100, 100, 100), gets("lmdb", 150, 150, 150), gets("bbolt", 120))
	l := lineOf(t, record(all...), "get", "128", "get_1_ns")
	if l.Cells[l.Best].Store != "bbolt" || l.Verdict != Missed {
		t.Errorf("best peer %s, %s; want bbolt and missed because of lmdb", l.Cells[l.Best].Store, l.Verdict)
	}
}
