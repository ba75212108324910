package transaction

import (
	"testing"

	"github.com/stoatdb/stoat/internal/testing/parts"
	"github.com/stoatdb/stoat/vfs/memfs"
)

// A goroutine that ends the transaction of a View may still be at work when the
// View returns.
func TestView_StateThatAnotherCallHasEndedServesNoLaterView(t *testing.T) {
	t.Parallel()
	e := Engine{Store: parts.New(t, parts.Options{FS: memfs.New(), MemtableSize: 1 << 20, TableSize: 1 << 20}).Store}
	state := func(fn func(tx Txn)) *State { // all Views on one goroutine have the same slot
		tx, slot, err := e.View()
		if err != nil {
			t.Fatal(err)
		}
		fn(tx)
		tx.EndView(slot)
		return tx.s
	}
	first := state(func(Txn) {})
	ended := state(Txn.Discard)
	written := state(func(tx Txn) { tx.s.decoded.Alloc(1) })
	last := state(func(Txn) {})
	if first != ended || ended == written || written == last {
		t.Errorf("states %p, %p, %p and %p: want three, the first one twice", first, ended, written, last)
	}
}
