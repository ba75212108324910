// Package device measures the limits of the machine that the stores run on,
// so that their figures can be held against what is possible: sequential
// writing, random reading, the latency of a sync, memory, and what the
// harness itself costs.
package device

import "time"

// Limits measures the machine in dir and returns the figures by name. Those
// that the system has no means for are absent. Each measurement lasts about
// length; the file, and the memory touched, have size bytes.
func Limits(dir string, length time.Duration, size int64) (map[string]float64, error) {
	limits := map[string]float64{}
	if err := memory(limits, length, size); err != nil {
		return nil, err
	}
	if err := harness(limits, length); err != nil {
		return nil, err
	}
	if err := disk(limits, dir, length, size); err != nil {
		return nil, err
	}
	return limits, nil
}
