package dose

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// recorder is a test that fails on command and records what it would print.
type recorder struct {
	testing.TB
	name     string
	failed   bool
	fatal    string
	log      []string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Name() string              { return r.name }
func (r *recorder) Failed() bool              { return r.failed }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Logf(f string, a ...any)   { r.log = append(r.log, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.fatal = fmt.Sprintf(f, a...); panic(r) }

// end runs the cleanups as testing does, and returns what was printed.
func (r *recorder) end() string {
	for i := len(r.cleanups) - 1; i >= 0; i-- {
		r.cleanups[i]()
	}
	return strings.Join(r.log, "\n")
}

func TestReproduce_FailurePrintsTheMakeTarget(t *testing.T) {
	r := &recorder{name: t.Name(), failed: true}
	seed := Seed(r)
	states := Size(r, States, 10, 20)
	Reproduce(r, "crash")
	want := fmt.Sprintf("reproduce: make crash SEED=%d STATES=%d", seed, states)
	if got := r.end(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestReproduce_NarrowsTheRun(t *testing.T) {
	r := &recorder{name: t.Name(), failed: true}
	Seed(r)
	Size(r, States, 10, 20)
	Reproduce(r, "crash", "seed", uint64(77), "states", 1, "workload", "flush")
	want := "reproduce: make crash SEED=77 STATES=1 WORKLOAD=flush"
	if got := r.end(); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestReproduce_WithoutTargetPrintsAGoTest(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		r := &recorder{name: t.Name(), failed: true}
		seed := Seed(r)
		got := r.end()
		for _, want := range []string{
			"reproduce: go test -count=1 ",
			"-run '^TestReproduce_WithoutTargetPrintsAGoTest$/^sub$' github.com/stoatdb/stoat/internal/testing/dose -args ",
			fmt.Sprintf("-stoat.seed=%d", seed),
		} {
			if !strings.Contains(got, want) {
				t.Errorf("printed %q, want it to hold %q", got, want)
			}
		}
	})
}

func TestReproduce_SuccessPrintsNothing(t *testing.T) {
	r := &recorder{name: t.Name()}
	Seed(r)
	Size(r, Ops, 1, 2)
	Reproduce(r, "model")
	if got := r.end(); got != "" {
		t.Errorf("printed %q, want nothing", got)
	}
	if _, kept := recipes.of[r]; kept {
		t.Error("the recipe of a finished test is kept")
	}
}

func TestMisuse_FailsTheTest(t *testing.T) {
	cases := map[string]func(t testing.TB){
		`no size "stats"`:     func(t testing.TB) { Size(t, "stats", 1, 2) },
		"got 1 arguments":     func(t testing.TB) { Reproduce(t, "crash", "seed") },
		"name of a pair is 7": func(t testing.TB) { Reproduce(t, "crash", 7, 7) },
	}
	for want, misuse := range cases {
		t.Run(want, func(t *testing.T) {
			r := &recorder{name: t.Name()}
			func() {
				defer func() { _ = recover() }() // Fatalf of the recorder
				misuse(r)
			}()
			r.end()
			if !strings.Contains(r.fatal, want) {
				t.Errorf("failed with %q, want it to hold %q", r.fatal, want)
			}
		})
	}
}

func TestChoose_FollowsTheCommandLineThenTheKindOfRun(t *testing.T) {
	want := 20
	if testing.Short() {
		want = 10
	}
	if got := choose(0, 10, 20); got != want {
		t.Errorf("unasked: %d, want %d", got, want)
	}
	if got := choose(5, 10, 20); got != 5 {
		t.Errorf("asked for 5: %d", got)
	}
	if got := choose(time.Hour, time.Second, time.Minute); got != time.Hour {
		t.Errorf("asked for an hour: %v", got)
	}
}

func TestFlags_Parse(t *testing.T) {
	set := flag.NewFlagSet("test", flag.ContinueOnError)
	f := register(set)
	if f.seed.seed != SeedDefault {
		t.Errorf("seed without a flag is %d, want %d", f.seed.seed, SeedDefault)
	}
	err := set.Parse([]string{"-stoat.seed=18446744073709551615", "-stoat.states=7", "-stoat.flips=-1", "-stoat.duration=3s"})
	if err != nil {
		t.Fatal(err)
	}
	if f.seed.seed != 1<<64-1 {
		t.Errorf("seed is %d", f.seed.seed)
	}
	if *f.sizes[States] != 7 || *f.sizes[Flips] != -1 || *f.sizes[Ops] != 0 {
		t.Errorf("sizes are %d states, %d flips, %d ops; want 7, -1, 0", *f.sizes[States], *f.sizes[Flips], *f.sizes[Ops])
	}
	if f.duration != 3*time.Second {
		t.Errorf("duration is %v", f.duration)
	}
}

func TestFlags_RefuseInvalidSeeds(t *testing.T) {
	for _, bad := range []string{"-1", "seven", "", "18446744073709551616"} {
		set := flag.NewFlagSet("test", flag.ContinueOnError)
		set.SetOutput(io.Discard)
		register(set)
		if err := set.Parse([]string{"-stoat.seed=" + bad}); err == nil {
			t.Errorf("seed %q was accepted", bad)
		}
	}
}

func TestSeed_ADrawnOneIsPrintedAtOnce(t *testing.T) {
	said := announcement(77)
	if !strings.Contains(said, "SEED=77 ") || strings.Count(said, "\n") != 1 {
		t.Errorf("printed %q", said)
	}
}

func TestSeed_RandomOnesDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for range 8 {
		var v seedValue
		if err := v.Set("random"); err != nil || !v.drawn {
			t.Fatal(err, v)
		}
		seen[v.seed] = true
	}
	if len(seen) < 2 {
		t.Error("eight random seeds are all the same")
	}
}
