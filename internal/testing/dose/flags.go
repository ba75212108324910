package dose

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// SeedDefault is the seed of a run without -stoat.seed. It is fixed, so that
// each change is tested with the same cases. The nightly targets pass other
// seeds.
const SeedDefault uint64 = 1

// The names of the sizes. Each is a flag -stoat.NAME.
const (
	States    = "states"
	Ops       = "ops"
	Histories = "histories"
	Flips     = "flips"
	Kills     = "kills"
	Lives     = "lives"
	Cuts      = "cuts"
	Sizes     = "sizes"
	Schedules = "schedules"
	Seals     = "seals"
)

// flags are the values of the command line. A size of 0 means that the test
// chooses.
type flags struct {
	seed     seedValue
	sizes    map[string]*int
	duration time.Duration
}

// given holds the flags of this test binary. The package registers them on
// import, before testing parses the command line.
var given = register(flag.CommandLine)

// register defines the flags in set and returns their values.
func register(set *flag.FlagSet) *flags {
	f := &flags{seed: seedValue{seed: SeedDefault}, sizes: map[string]*int{}}
	set.Var(&f.seed, "stoat.seed", "seed of the randomized tests, a number or \"random\"")
	for _, size := range []struct{ name, usage string }{
		{States, "crash states to visit; 0: the test chooses"},
		{Ops, "operations to run; 0: the test chooses"},
		{Histories, "concurrent histories to check; 0: the test chooses"},
		{Flips, "bits to flip, -1 for every bit; 0: the test chooses"},
		{Kills, "processes to kill; 0: the test chooses"},
		{Lives, "lives of databases to play; 0: the test chooses"},
		{Cuts, "power cuts of real file systems; 0: the test chooses"},
		{Sizes, "sizes of disks to fill; 0: the test chooses"},
		{Schedules, "schedules to play; 0: the test chooses"},
		{Seals, "encryptions to watch; 0: the test chooses"},
	} {
		f.sizes[size.name] = set.Int("stoat."+size.name, 0, size.usage)
	}
	set.DurationVar(&f.duration, "stoat.duration", 0, "how long to run tests bounded by time; 0: the test chooses")
	return f
}

// A seedValue is the flag for a seed.
type seedValue struct {
	seed  uint64
	drawn bool
}

// String formats the seed as Set accepts it.
func (v *seedValue) String() string { return strconv.FormatUint(v.seed, 10) }

// Set parses a decimal number, or draws a seed for "random". A drawn seed has
// 32 bits, so that it is easy to copy by hand.
func (v *seedValue) Set(s string) error {
	if s == "random" {
		v.seed, v.drawn = uint64(rand.Uint32()), true
		return nil
	}
	seed, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return fmt.Errorf("a seed is a number from 0 to 2^64-1, or \"random\": %w", err)
	}
	v.seed, v.drawn = seed, false
	return nil
}
