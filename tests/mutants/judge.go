package mutants

import (
	"errors"
	"regexp"
	"strings"
)

const (
	// found is in the output of a hunt whose harness has noticed something.
	found = "a harness noticed"
	// notReached is in the output of a hunt whose mutant was never asked for.
	notReached = "the engine never came to where this mutant lives"
	// hangs is what a test process says at the end of its time.
	hangs = "panic: test timed out after"
)

// crashed matches the beginning of a trace that ends a process, and what the race detector
// reports.
var crashed = regexp.MustCompile(`(?m)^(panic: |fatal error: |WARNING: DATA RACE)`)

// judge says from the output of a hunt whether it noticed the mutant. failed says that the
// process has failed. A process that fails without a finding of a harness and without a crash of
// the database proves nothing: its set-up may have failed, or the memory was too small.
func judge(out string, failed bool) (noticed bool, err error) {
	switch {
	case strings.Contains(out, notReached):
		return false, errors.New("the hunt proves nothing")
	case !failed:
		return false, nil
	case strings.Contains(out, found):
		return true, nil
	case strings.Contains(out, hangs):
		return false, errors.New("the hunt did not end")
	case crashed.MatchString(out) && !strings.Contains(out, "out of memory"):
		return true, nil
	}
	return false, errors.New("the hunt itself failed")
}
