package collect

import (
	"bytes"
	"fmt"
	"testing"
)

// leaveGarbage makes a value file that is half garbage, and known to be.
func (e *engine) leaveGarbage(keys string) {
	e.t.Helper()
	for _, step := range []int{1, 2} {
		e.update(func(tx transaction) {
			for n := 0; n < 40; n += step {
				tx.set(fmt.Appendf(nil, "%s-%02d", keys, n), bytes.Repeat([]byte{byte('0' + step)}, testThreshold))
			}
		})
		e.flush()
	}
	e.sink()
}

// Garbage may leave no room for a gathering. There is room after a collection,
// although a reader keeps the old files for now.
func TestCollector_WakesTheCompactorAfterItHasCollected(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 32<<20)
	e.leaveGarbage("key")
	slot, err := e.store.Acquire()
	e.must(err)
	e.store.Begin(slot)
	e.compactWakes = 0
	_, err = e.collector.Step()
	e.must(err)
	files, _, _ := e.store.ObsoleteFiles()
	if n := e.collector.Counts.Collections.Load(); n == 0 || files == 0 {
		t.Fatalf("%d files were collected, of which a reader keeps %d", n, files)
	}
	if e.compactWakes == 0 {
		t.Error("the compactor was not woken")
	}
	e.store.Release(slot)
}
