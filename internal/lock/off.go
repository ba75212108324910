//go:build !invariants

package lock

import "sync"

// A Mutex is a sync.Mutex of the rank R. The zero value is unlocked.
type Mutex[R Ranked] struct{ sync.Mutex }

// Acquired notes that this goroutine took another kind of lock, of rank R.
func Acquired[R Ranked]() {}

// Released notes that this goroutine gave such a lock back.
func Released[R Ranked]() {}
