package mutants

import "testing"

func TestJudge_OnlyAFindingOrACrashCountsAsNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, out      string
		failed         bool
		noticed, wrong bool
	}{
		{"a finding", "    hunt.go:1: " + found + ": model, round 0: a wrong value\n", true, true, false},
		{"a panic of the database", "=== RUN   TestMutants_Hunt\npanic: an invariant\n\ngoroutine 7 [running]:\n", true, true, false},
		{"a crash of the database", "fatal error: unexpected signal during runtime execution\n", true, true, false},
		{"a race", "==================\nWARNING: DATA RACE\n", true, true, false},
		{"nothing", "PASS\n", false, false, false},
		{"no mutant", "    hunt.go:1: " + notReached + "\n", true, false, true},
		{"no end", hangs + " 1m0s\n\ngoroutine 7 [running]:\n", true, false, true},
		{"no memory", "fatal error: runtime: out of memory\n\ngoroutine 7 [running]:\n", true, false, true},
		{"a failed set-up", "    image.go:1: no space left on device\n--- FAIL: TestMutants_Hunt\n", true, false, true},
		{"the end by a signal", "=== RUN   TestMutants_Hunt\n", true, false, true},
	} {
		noticed, err := judge(c.out, c.failed)
		if noticed != c.noticed || (err != nil) != c.wrong {
			t.Errorf("%s: noticed %t, error %v; want %t, error %t", c.name, noticed, err, c.noticed, c.wrong)
		}
	}
}
