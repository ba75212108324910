package guard

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
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
	for _, j := range jobs {
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
	keep, keepPace := jobs, pace
	defer func() { jobs, pace = keep, keepPace }()
	jobs = []job{
		{"populate", "128", []figure{{"load_keys_per_s", true}}},
		{"get", "128", []figure{{"get_1_ns", false}, {"no_such_ns", false}}},
	}
	pace = workload.Pace{Warm: time.Millisecond, Phase: 5 * time.Millisecond, Quiet: 5 * time.Millisecond, Limit: 20 * time.Millisecond, Processes: 1}
	var out bytes.Buffer
	// No interval of two rounds is narrow enough, so only the estimates count.
	g := Guard{Old: self, New: self, Dir: t.TempDir(), Scale: 0.001, Rule: Rule{Limit: 1e9, Alpha: 0.05}, Rounds: 1, RoundsMax: 2, Out: &out}
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
	if err := note(jobs[0], [2][]workload.Result{ok, wrong}, nil); err == nil {
		t.Error("a wrong answer of the new program is no error")
	}
	if err := note(jobs[0], [2][]workload.Result{wrong, ok}, nil); err != nil {
		t.Errorf("the old program lacks a workload: %v", err)
	}
}

func TestJobs_EachIsAWorkloadOnItsData(t *testing.T) {
	t.Parallel()
	for _, j := range jobs {
		w, ok := workload.Find(j.workload)
		if !ok || !strings.Contains(strings.Join(w.Data, " "), j.data) || !w.Runs("stoat") || w.Changes {
			t.Errorf("%s %s cannot run", j.workload, j.data)
		}
	}
}
