// Package workload has the loads, reads and mixtures of the comparison, and
// checks every answer of a store.
//
// A key is a number in a text of 22 bytes. A value follows from the number of
// its key and the version of its write. A reader therefore knows whether a key
// must exist and whether a value is the last one written. The harness stores
// only a bit or a version per key.
//
// Each workload runs in its own process: Execute runs one and returns its
// result.
package workload
