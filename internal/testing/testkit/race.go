package testkit

// Raced returns the size of a test: full, or raced under the race detector, which makes the
// work ten to twenty times slower.
func Raced(full, raced int) int {
	if raceDetector {
		return raced
	}
	return full
}
