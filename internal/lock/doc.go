// Package lock gives every lock of the engine a rank, so that the order in
// which goroutines take locks is written down and checked.
//
// With the build tag "invariants" (and under the race detector, if the tag is
// set) taking a lock out of order panics at once, on the first run that does
// it, whether or not another goroutine is there to deadlock with. Without the
// tag a Mutex is a sync.Mutex and nothing else.
package lock
