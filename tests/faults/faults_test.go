package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/vfs/faultfs"
)

// TestFaults makes every call to the file system fail, once and from then on,
// with every kind of error. Whatever happens: no panic, no wrong answer, reads
// go on, and what was acknowledged is there when the trouble is over.
func TestFaults(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	most := dose.Size(t, dose.States, testkit.Raced(50, 15), 300)
	dose.Reproduce(t, "faults")
	var calls [][]*faultCase
	for _, scene := range Scenes(t) {
		calls = append(calls, scene.cases(t)...)
	}
	cases := dealt(calls, rand.New(rand.NewPCG(seed, 0xfa)))
	all := len(cases)
	if most < 0 {
		most = len(calls) // each fails once
	}
	cases = cases[:min(most, all)]
	var met, fired atomic.Int64
	testkit.Must(t, testkit.InParallel(len(cases), func(n int) error {
		c := cases[n]
		if err := testkit.CatchPanic(func() error { return c.run(seed) }); err != nil {
			return fmt.Errorf("%v: %w", c, err)
		}
		fired.Add(c.fired)
		if c.fired > 0 {
			met.Add(1)
		}
		return nil
	}))
	t.Logf("%d of %d cases of %d calls; in %d of them, %d calls failed", len(cases), all, len(calls), met.Load(), fired.Load())
	// Background jobs make some lives shorter than the life that counted the calls.
	if 4*met.Load() < 3*int64(len(cases)) {
		t.Errorf("a call failed in %d of %d cases only", met.Load(), len(cases))
	}
}

// dealt puts the cases in an order of which every beginning is fair to the calls:
// none fails once more than another before that one has failed as often. Which
// call comes when, and with which of its errors, is drawn.
func dealt(calls [][]*faultCase, rng *rand.Rand) []*faultCase {
	var left [][]*faultCase
	for _, cases := range calls {
		cases = slices.Clone(cases)
		rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		left = append(left, cases)
	}
	var order []*faultCase
	for len(left) > 0 {
		rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		for i, cases := range left {
			order = append(order, cases[0])
			left[i] = cases[1:]
		}
		left = slices.DeleteFunc(left, func(cases []*faultCase) bool { return len(cases) == 0 })
	}
	return order
}

func TestFaultsDose_EachCallFailsOnceBeforeAnyFailsTwice(t *testing.T) {
	t.Parallel()
	var calls [][]*faultCase
	for nth := range int64(40) {
		var cases []*faultCase
		for i := range 1 + len(kindsOfFaults) - int(nth%2) {
			cases = append(cases, &faultCase{what: fmt.Sprint(i), rule: faultfs.Rule{Nth: nth}})
		}
		calls = append(calls, cases)
	}
	order := dealt(calls, rand.New(rand.NewPCG(1, 2)))
	again := dealt(calls, rand.New(rand.NewPCG(1, 2)))
	other := dealt(calls, rand.New(rand.NewPCG(2, 2)))
	times, firstErrors := make(map[int64]int), make(map[string]bool)
	for i, c := range order {
		if times[c.rule.Nth] != i/len(calls) && i < len(calls)*len(kindsOfFaults) {
			t.Fatalf("case %d is call %d, which has failed %d times", i, c.rule.Nth, times[c.rule.Nth])
		}
		times[c.rule.Nth]++
		if i < len(calls) {
			firstErrors[c.what] = true
		}
	}
	seen := make(map[*faultCase]bool)
	for _, c := range order {
		seen[c] = true
	}
	if len(seen) != 40*len(kindsOfFaults)+20 || len(order) != len(seen) {
		t.Errorf("%d cases were dealt, %d of them different, want all %d", len(order), len(seen), 40*len(kindsOfFaults)+20)
	}
	if len(firstErrors) < 5 {
		t.Errorf("the first failures of 40 calls are of %d kinds", len(firstErrors))
	}
	if !slices.Equal(order, again) || slices.Equal(order, other) {
		t.Error("the order does not follow from the seed")
	}
}

func TestIngests_AFailedCallLeavesNothingOfAnIngest(t *testing.T) {
	t.Parallel()
	n := dose.Short(10, 40)
	failed, err := RunIngests(dose.Seed(t), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d ingests failed", failed, n)
	if failed == 0 {
		t.Error("no ingest failed")
	}
}
