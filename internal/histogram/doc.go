// Package histogram counts durations. Counting one takes a few atomic
// operations and no lock, so every commit can afford it.
package histogram
