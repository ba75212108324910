package guard

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/workload"
)

// TestMain lets the test binary run jobs, as the compare command does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == comparison.ChildCommand {
		if err := comparison.RunChild(os.Args[2:]); err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// A noise says how a shared machine disturbs figures.
type noise struct {
	deviation float64 // of each figure, as a share
	disturbed float64 // the share of figures that take longer
	most      float64 // how much longer at most, as a share
}

// noisy returns rows under noise, with a drift that both programs share. The
// first row has the given loss.
func noisy(rng *rand.Rand, n noise, rows, rounds int, loss float64) []Row {
	all := make([]Row, rows)
	for i := range all {
		all[i].Name = "row"
		drift := 1000.0
		figure := func() float64 {
			var results []workload.Result
			for range 2 {
				v := drift * math.Exp(n.deviation*rng.NormFloat64())
				if rng.Float64() < n.disturbed {
					v *= 1 + n.most*rng.Float64()
				}
				results = append(results, workload.Result{Status: workload.OK, Metrics: map[string]float64{"ns": v}})
			}
			v, _ := figure{metric: "ns"}.best(results)
			return v
		}
		for range rounds {
			drift *= math.Exp(0.05 * rng.NormFloat64())
			all[i].Old, all[i].New = append(all[i].Old, figure()), append(all[i].New, figure())
			if i == 0 {
				all[i].New[len(all[i].New)-1] *= 1 + loss
			}
		}
	}
	return all
}

// share returns in how many of 100 synthetic runs the guard fails.
func share(n noise, loss float64, rounds int) float64 {
	rng := rand.New(rand.NewPCG(3, uint64(rounds)))
	const runs = 100
	failed := 0
	for range runs {
		if Losses(DefaultRule.Decide(noisy(rng, n, len(figuresOfAll()), rounds, loss))) != nil {
			failed++
		}
	}
	return float64(failed) / runs
}

func figuresOfAll() (all []figure) {
	for _, j := range RevisionJobs {
		all = append(all, j.figures...)
	}
	return all
}

func TestDecide_FindsALossOfTenPercentAndNoLossOfEqualPrograms(t *testing.T) {
	t.Parallel()
	common, heavy := noise{0.04, 0.05, 1}, noise{0.06, 0.1, 2}
	if got := share(common, 0.10, DefaultRoundsMax); got < 0.95 {
		t.Errorf("a loss of 10 %% is found in %.2f of the runs, want nearly all", got)
	}
	if got := share(heavy, 0.15, DefaultRoundsMax); got < 0.95 {
		t.Errorf("a loss of 15 %% under heavy noise is found in %.2f of the runs, want nearly all", got)
	}
	for _, n := range []noise{common, heavy} {
		for _, rounds := range []int{4, DefaultRounds, DefaultRoundsMax} {
			if got := share(n, 0, rounds); got > DefaultRule.Alpha {
				t.Errorf("%+v, %d rounds: equal programs fail in %.3f of the runs, want at most %v", n, rounds, got, DefaultRule.Alpha)
			}
		}
	}
	if got := share(common, -0.3, DefaultRoundsMax); got > DefaultRule.Alpha {
		t.Errorf("a gain fails in %.3f of the runs", got)
	}
}

func TestDecide_TheWholeIntervalMustBeAboveTheLimit(t *testing.T) {
	t.Parallel()
	rule := Rule{Limit: 0.03, Alpha: 0.05}
	row := func(ratios ...float64) Row {
		r := Row{New: ratios}
		for range ratios {
			r.Old = append(r.Old, 1)
		}
		return r
	}
	for want, ratios := range map[Verdict][]float64{
		Loss:      {1.05, 1.06, 1.07, 1.08, 1.09, 1.10},
		Fine:      {0.98, 0.99, 1.00, 1.00, 1.01, 1.02},
		Undecided: {0.98, 1.06, 1.07, 1.08, 1.09, 1.10},
	} {
		got := rule.Decide([]Row{row(ratios...)})[0]
		if got.Verdict != want {
			t.Errorf("%v: %+v, want %s", ratios, got, want)
		}
		if open := rule.Open(got); open != (want != Fine) {
			t.Errorf("%v needs more rounds: %t", ratios, open)
		}
	}
	if got := rule.Decide([]Row{row(2, 2, 2)})[0]; got.Verdict != Undecided {
		t.Errorf("three rounds: %+v, want undecided", got)
	}
}

func TestGuard_RunsBothProgramsInTurnsAndGoesOnWhereOpen(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	keepPace := pace
	defer func() { pace = keepPace }()
	jobs := []Job{
		{"populate", "128", []figure{{metric: "load_keys_per_s", higher: true}}},
		{"get", "128", []figure{{metric: "get_1_ns"}, {metric: "no_such_ns"}}},
	}
	sides := [2]Side{{self, "stoat"}, {self, "stoat-encrypted"}}
	pace = workload.Pace{Warm: time.Millisecond, Phase: 5 * time.Millisecond, Quiet: 5 * time.Millisecond, Limit: 20 * time.Millisecond, Processes: 1}
	var out bytes.Buffer
	// No interval of two rounds is narrow enough, so only the estimates count.
	g := Guard{Old: sides[0], New: sides[1], Jobs: jobs, Dir: t.TempDir(), Scale: 0.001, Rule: Rule{Limit: 1e9, Alpha: 0.05}, Rounds: 1, RoundsMax: 2, Out: &out}
	all, err := g.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || len(all[0].Row.Old) != 1 || len(all[1].Row.New) != 1 || all[1].Ratio <= 0 {
		t.Errorf("%+v, want two rows of one round", all)
	}
	g.Rule.Limit = -1 + 1e-9 // every estimate is beyond it
	if all, err = g.Run(context.Background()); err != nil || len(all[0].Row.Old) != 2 {
		t.Errorf("%+v, %v, want two rounds", all, err)
	}
	if got := strings.Count(out.String(), "round"); got != 3 {
		t.Errorf("%d rounds are announced, want 3", got)
	}
	g.Deadline = time.Now().Add(-time.Second)
	if all, err = g.Run(context.Background()); err != nil || len(all[0].Row.Old) != 1 {
		t.Errorf("%+v, %v, want one round after the deadline", all, err)
	}
}

func TestNote_AFailureOfTheNewProgramFailsTheGuard(t *testing.T) {
	t.Parallel()
	ok, wrong := []workload.Result{{Status: workload.OK}}, []workload.Result{{Status: workload.Wrong}}
	if err := note(RevisionJobs[0], [2][]workload.Result{ok, wrong}, nil); err == nil {
		t.Error("a wrong answer of the new program is no error")
	}
	if err := note(RevisionJobs[0], [2][]workload.Result{wrong, ok}, nil); err != nil {
		t.Errorf("the old program lacks a workload: %v", err)
	}
}

func TestJobs_EachIsAWorkloadOnItsData(t *testing.T) {
	t.Parallel()
	for _, j := range slices.Concat(RevisionJobs, EncryptedJobs()) {
		w, ok := workload.Find(j.workload)
		if !ok || !slices.Contains(w.Data, j.data) || !w.Runs("stoat") {
			t.Errorf("%s %s cannot run", j.workload, j.data)
		}
	}
}

func TestDecide_EachRowHasItsOwnLimitAndError(t *testing.T) {
	t.Parallel()
	row := func(limit float64, ratios ...float64) Row {
		r := Row{New: ratios, Limit: limit}
		for range ratios {
			r.Old = append(r.Old, 1)
		}
		return r
	}
	ratios := []float64{1.18, 1.19, 1.2, 1.2, 1.21, 1.22, 1.2, 1.2}
	for _, c := range []struct {
		limit float64
		want  Verdict
	}{
		{encryptedReadLimit, Loss}, {encryptedLoadLimit, Fine}, {0.2, Undecided}, {math.Inf(1), Shown}, {0, Shown},
	} {
		// Fifty more rows must not widen the interval of this one.
		rows := append([]Row{row(c.limit, ratios...)}, make([]Row, 50)...)
		got := EncryptedRule.Decide(rows)[0]
		if got.Verdict != c.want {
			t.Errorf("a loss of 20 %% with the limit %v is %s, want %s", c.limit, got.Verdict, c.want)
		}
		if open := EncryptedRule.Open(got); open != (c.want == Loss || c.want == Undecided) {
			t.Errorf("a loss of 20 %% with the limit %v needs more rounds: %t", c.limit, open)
		}
	}
	// Loads lose at most three tenths of their rate.
	if got := EncryptedRule.Decide([]Row{row(encryptedLoadLimit, 1/0.69, 1/0.69, 1/0.69, 1/0.69, 1/0.69, 1/0.69)})[0]; got.Verdict != Loss {
		t.Errorf("a load at 0.69 of the rate is %s, want a loss", got.Verdict)
	}
}

func TestEncryptedJobs_LimitWarmReadsAndLoadsAndShowAllOtherRows(t *testing.T) {
	t.Parallel()
	limits := map[string]float64{}
	for _, j := range EncryptedJobs() {
		for _, f := range j.figures {
			limits[j.workload+" "+j.data+" "+f.metric] = f.limit
		}
	}
	for name, want := range map[string]float64{
		"get 1k get_1_ns": 0.1, "scan 16k scan_whole_ns": 0.1, "seek 128 seek_16_ns": 0.1,
		"populate 128 load_keys_per_s": 1/0.7 - 1, "unique 16k load_keys_per_s": 1/0.7 - 1,
		"commit 128 commit_1_per_s": math.Inf(1), "mixed-95 1k mixed_per_s": math.Inf(1), "get 1k get_1_p99_us": math.Inf(1),
	} {
		if got, ok := limits[name]; !ok || got != want {
			t.Errorf("%s has the limit %v (%t), want %v", name, got, ok, want)
		}
	}
	for name := range limits {
		if strings.Contains(name, "limited") {
			t.Errorf("%s is not a row of the quick comparison", name)
		}
	}
}

func TestOnly_KeepsTheLoadsOfTheNamedJobs(t *testing.T) {
	t.Parallel()
	var got []string
	for _, j := range Only(EncryptedJobs(), []string{"get", "commit", "128"}) {
		got = append(got, j.workload+" "+j.data)
	}
	if want := []string{"populate 128", "get 128", "commit 128"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Only(RevisionJobs, nil); len(got) != len(RevisionJobs) {
		t.Errorf("without names %d jobs are left, want all %d", len(got), len(RevisionJobs))
	}
}

func TestGuard_AWorkloadThatChangesDataGetsANewCopy(t *testing.T) {
	t.Parallel()
	g := Guard{Dir: t.TempDir()}
	populate, _ := workload.Find("populate")
	mixed, _ := workload.Find("mixed-50")
	loaded, err := g.prepare(populate, "old-1k")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(loaded, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(loaded, "data"), []byte("loaded"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		dir, err := g.prepare(mixed, "old-1k")
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "data")
		if text, err := os.ReadFile(name); err != nil || string(text) != "loaded" || dir == loaded {
			t.Errorf("the copy %s has %q, %v", dir, text, err)
		}
		if err := os.WriteFile(name, []byte("changed"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
