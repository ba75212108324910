package collect

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/parts"
)

// leaveGarbage makes a value file that is half garbage, and known to be.
func (e *engine) leaveGarbage(keys string) {
	e.T.Helper()
	for _, step := range []int{1, 2} {
		e.update(func(tx transaction) {
			for n := 0; n < 40; n += step {
				tx.set(fmt.Appendf(nil, "%s-%02d", keys, n), bytes.Repeat([]byte{byte('0' + step)}, parts.Threshold))
			}
		})
		e.Flush()
	}
	e.sink()
}

// Garbage may leave no room for a gathering. There is room after a collection,
// although a reader keeps the old files for now.
func TestCollector_WakesTheCompactorAfterItHasCollected(t *testing.T) {
	t.Parallel()
	e := newEngine(t, 32<<20)
	e.leaveGarbage("key")
	slot, err := e.Store.Acquire()
	e.Must(err)
	e.Store.Begin(slot)
	e.compactWakes = 0
	e.Activity.Note() // at rest it would wait for the reader
	_, err = e.collector.Step()
	e.Must(err)
	files, _, _ := e.Store.ObsoleteFiles()
	if n := e.collector.Counts.Collections.Load(); n == 0 || files == 0 {
		t.Fatalf("%d files were collected, of which a reader keeps %d", n, files)
	}
	if e.compactWakes == 0 {
		t.Error("the compactor was not woken")
	}
	e.Store.Release(slot)
}
