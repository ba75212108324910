// Package lock gives every lock of the engine a rank, so that the order in
// which goroutines take locks is written down and checked.
//
// Package lock gives every lock of the engine a rank. The ranks write down the order in
// which goroutines take locks, and a check compares. The locks of all databases count
// together. Without the tag a Mutex is a sync.Mutex.
package lock
