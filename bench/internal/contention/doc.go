// Package contention measures transactions that many goroutines run on the same keys,
// beside the Batch of bbolt. It has only benchmarks.
package contention
