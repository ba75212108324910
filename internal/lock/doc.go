// Package lock gives every lock of the engine a rank, so that the order in
// which goroutines take locks is written down and checked.
//
// With the build tag "invariants" a goroutine that takes a lock out of order panics at
// once. It does so even if no other goroutine is there to deadlock with. The locks of all
// databases count together. Without the tag a Mutex is a sync.Mutex.
package lock
