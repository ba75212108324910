// Package histogram counts durations. Counting one takes at most three atomic
// operations and no lock, so every commit can afford it.
package histogram
