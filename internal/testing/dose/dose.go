package dose

import (
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"time"
)

// Seed returns the seed of this run. If t fails, it prints how to repeat the
// run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := given.seed.seed
	if given.seed.drawn {
		announced.Do(func() { fmt.Print(announcement(seed)) })
	}
	recipeOf(t).set("seed", seed)
	return seed
}

// announced prints the drawn seed once.
var announced sync.Once

// announcement returns the line that tells the seed at the beginning. After a
// panic in another goroutine or a timeout, a test cannot print it.
func announcement(seed uint64) string {
	return fmt.Sprintf("the seed was drawn: SEED=%d of the Makefile, -stoat.seed=%d of a test\n", seed, seed)
}

// Size returns the named size: the one of the command line if given, otherwise
// small under -short, otherwise full.
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

// Short returns small under -short and full otherwise, for sizes that have no
// flag.
func Short(small, full int) int { return choose(0, small, full) }

// Duration returns how long a test bounded by time runs: as the command line
// says if given, otherwise small under -short, otherwise full.
func Duration(t testing.TB, small, full time.Duration) time.Duration {
	t.Helper()
	d := choose(given.duration, small, full)
	recipeOf(t).set("duration", d)
	return d
}

// Reproduce names the Makefile target that runs t, for the line that a failure
// prints. The pairs (name, value, …) add to or replace the seed and the sizes
// that t asked for. With them a test can name a smaller run that still fails:
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

// choose returns asked if it is not zero, otherwise the size for this kind of
// run.
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

// buildFlags returns the build flags of this test binary that change what its
// tests do.
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
