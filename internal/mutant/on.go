//go:build mutants

package mutant

import (
	"sync"
	"sync/atomic"
)

// Enabled reports whether this build can be mutated.
const Enabled = true

// active maps each enabled name to the number of calls of On with it. It is nil
// when no name is enabled. The names apply to the whole process, because the
// engine does not pass a set of bugs through its layers.
var active atomic.Pointer[map[Name]*atomic.Int64]

// enabling guards changes of active.
var enabling sync.Mutex

// On reports whether the guarantee called name is removed.
func On(name Name) bool {
	set := active.Load()
	if set == nil {
		return false
	}
	asked := (*set)[name]
	if asked == nil {
		return false
	}
	asked.Add(1)
	return true
}

// Enable removes the guarantees called names, and no others, until the returned
// function restores them. That function returns how often the engine called On
// with the names. 0 means that the engine does not know the names, or that the
// workload never reached them.
func Enable(names ...Name) (restore func() int64) {
	enabling.Lock()
	defer enabling.Unlock()
	set := make(map[Name]*atomic.Int64)
	for _, name := range names {
		set[name] = new(atomic.Int64)
	}
	active.Store(&set)
	return func() int64 {
		enabling.Lock()
		defer enabling.Unlock()
		active.Store(nil)
		var total int64
		for _, asked := range set {
			total += asked.Load()
		}
		return total
	}
}
