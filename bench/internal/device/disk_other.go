//go:build !linux

package device

import "time"

// disk measures nothing: it exists only for Linux.
func disk(map[string]float64, string, time.Duration, int64) error { return nil }
