package testkit

import "testing"

// SkipUnderRace skips a test of one goroutine and much data under the race detector. The
// detector makes such a test ten to twenty times slower. The background jobs that it
// runs meet users in tests of several goroutines, which the detector does see.
func SkipUnderRace(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("one goroutine and much data: slow under the race detector")
	}
}
