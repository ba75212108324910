// Package device measures the limits of the machine, so that the figures of the stores can
// be compared with them. It measures sequential writes, random reads, the latency of a
// sync, memory, and the cost of the harness itself.
package device

import "time"

// Limits measures the machine and returns the figures by name. A figure that the
// system cannot provide is absent. Each measurement takes about length. The file
// in dir, and the memory touched, have size bytes.
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
