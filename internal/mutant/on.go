//go:build mutants

package mutant

import (
	"sync"
	"sync/atomic"
)

// Enabled reports whether this build can be mutated.
const Enabled = true

// active maps each enabled name to the number of times On was asked for it.
// The tests enable one name at a time for the whole process: the engine has
// no place to carry a set of bugs through its layers.
var active struct {
	sync.RWMutex
	asked map[Name]*atomic.Int64
}

// On reports whether the guarantee called name is removed.
func On(name Name) bool {
	active.RLock()
	defer active.RUnlock()
	n := active.asked[name]
	if n == nil {
		return false
	}
	n.Add(1)
	return true
}

// Enable removes the guarantees called names until the returned function
// restores them. It reports, through that function's result, how often the
// engine asked for them: zero means that no place in the engine knows the
// name, or that the workload never came there.
func Enable(names ...Name) (restore func() int64) {
	active.Lock()
	defer active.Unlock()
	if active.asked == nil {
		active.asked = make(map[Name]*atomic.Int64)
	}
	var counts []*atomic.Int64
	for _, name := range names {
		c := new(atomic.Int64)
		active.asked[name] = c
		counts = append(counts, c)
	}
	return func() int64 {
		active.Lock()
		defer active.Unlock()
		var total int64
		for i, name := range names {
			delete(active.asked, name)
			total += counts[i].Load()
		}
		return total
	}
}
