//go:build !linux

package device

import "time"

// disk is measured on Linux only.
func disk(map[string]float64, string, time.Duration, int64) error { return nil }
