// Package histogram counts durations where they are spent. To count one is
// three atomic additions at most, and no lock, so that a commit can afford it.
package histogram
