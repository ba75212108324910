package testkit

import "testing"

// Raced returns the size of a test: full, or raced under the race detector, which makes the
// work ten to twenty times slower.
func Raced(full, raced int) int {
	if raceDetector {
		return raced
	}
	return full
}

// SkipRaced skips a test under the race detector. It is for a test of much work by one
// goroutine, which a smaller test of the same code also does. why says what it is about.
func SkipRaced(t testing.TB, why string) {
	t.Helper()
	if raceDetector {
		t.Skip("under the race detector: ", why)
	}
}
