package commit

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
)

// A commit that leads, or that another leader calls upon to lead meanwhile, is refused
// before a group has it. Then another commit in the queue must get the lead.
func TestEarly_ARefusedCommitPassesTheLeadOn(t *testing.T) {
	t.Parallel()
	for _, called := range []bool{false, true} {
		store := newStore()
		defer store.Abandon()
		c := New(Options{Store: store, MemtableSize: storeMemtable})
		w, gate, other := c.NewWriteSet(), new(Gate), SyncRequest()
		w.Pass(gate)
		gate.Shut() // which refuses the commit
		r := w.Request(0, true)
		if called {
			c.leaders, c.groupSize = 1, 10 // a large group is on its way
		}
		joined := false
		c.Bind(throttle.New(throttle.Options{MemtableSize: storeMemtable, Failed: c.Failed, Fill: func() state.Fill {
			if joined {
				return store.Fill()
			}
			joined = true // r is in the queue, and this goroutine holds mu
			if called {
				c.leaders--
				c.leadForLocked(r)
			}
			c.queue, other.queued = append(c.queue, other), true
			return store.Fill()
		}}))
		early, lead, err := c.enterEarly(r)
		if early || lead || !errors.Is(err, base.ErrNoKeyspace) || !joined {
			t.Fatalf("called %v: applied %v, lead %v, error %v", called, early, lead, err)
		}
		if len(r.ready) != 0 || len(other.ready) != 1 || c.leaders != 1 {
			t.Errorf("called %v: %d signals for the refused commit, %d for the other one, %d leaders",
				called, len(r.ready), len(other.ready), c.leaders)
		}
		c.FreeWriteSet(w)
	}
}
