package dose

import (
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// Seed returns the seed of this run and makes a failure of t tell how to run
// it again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := given.seed.seed
	if given.seed.drawn {
		announced.Do(func() { fmt.Print(announcement(seed)) })
	}
	recipeOf(t).set("seed", seed)
	return seed
}

// announced is done once the seed that was drawn has been printed.
var announced sync.Once

// announcement is the line that tells the seed before anything has happened: a
// panic of another goroutine, or the end of the time, leaves a test no chance to
// say it.
func announcement(seed uint64) string {
	return fmt.Sprintf("the seed was drawn: SEED=%d of the Makefile, -stoat.seed=%d of a test\n", seed, seed)
}

// Size returns the named size: the one of the command line if it was given,
// or small under -short, or full.
func Size(t testing.TB, name string, small, full int) int {
	t.Helper()
	asked, ok := given.sizes[name]
	if !ok {
		t.Fatalf("dose: there is no size %q", name)
	}
	n := choose(*asked, small, full)
	recipeOf(t).set(name, n)
	return n
}

// Short returns small under -short, or else full: for what no command line sets.
func Short(small, full int) int { return choose(0, small, full) }

// Duration returns how long a test bounded by time shall run: as the command
// line says if it does, or small under -short, or full.
func Duration(t testing.TB, small, full time.Duration) time.Duration {
	t.Helper()
	d := choose(given.duration, small, full)
	recipeOf(t).set("duration", d)
	return d
}

// Reproduce names the target of the Makefile that runs t, for the line that a
// failure prints. The pairs (name, value, …) are added to the seed and the
// sizes that t asked for, or replace them where a test can name a smaller run
// that still fails:
//
//	dose.Reproduce(t, "crash", "seed", stateSeed, "states", 1)
func Reproduce(t testing.TB, target string, pairs ...any) {
	t.Helper()
	if len(pairs)%2 != 0 {
		t.Fatalf("dose: Reproduce needs pairs of name and value, got %d arguments", len(pairs))
	}
	r := recipeOf(t)
	r.target = target
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			t.Fatalf("dose: the name of a pair is %v, want a string", pairs[i])
		}
		r.set(name, pairs[i+1])
	}
}

// choose returns what the command line asked for, or else the size for the
// kind of run this is.
func choose[T int | time.Duration](asked, small, full T) T {
	switch {
	case asked != 0:
		return asked
	case testing.Short():
		return small
	default:
		return full
	}
}

// buildFlags returns the flags that this test binary was built with and that
// change what its tests do.
func buildFlags() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var out []string
	for _, s := range info.Settings {
		switch {
		case s.Key == "-race" && s.Value == "true":
			out = append(out, "-race")
		case s.Key == "-tags" && s.Value != "":
			out = append(out, "-tags", s.Value)
		}
	}
	return out
}
