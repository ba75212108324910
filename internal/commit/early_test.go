package commit

import (
	"errors"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/state"
	"github.com/stoatdb/stoat/internal/throttle"
	"github.com/stoatdb/stoat/internal/turns"
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
			c.leaders, c.size = 1, 10 // a large group is on its way
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

// The updates of a queue take turns, and most of them are not in the queue of commits yet.
// Without a wait for them, each small group makes the next one small.
func TestEarly_ALeaderExpectsTheUpdatesThatTakeTurns(t *testing.T) {
	t.Parallel()
	const turn = 3
	store := newStore()
	defer store.Abandon()
	c := New(Options{Store: store, MemtableSize: storeMemtable})
	c.queue, c.early, c.size = []*Request{SyncRequest()}, 1, 1
	if c.awaitsOthers() {
		t.Error("waits, although no update takes turns")
	}
	var places [turn]turns.Place
	for i := range places {
		c.Line.Join(&places[i], turns.Claim{})
	}
	if !c.awaitsOthers() {
		t.Errorf("does not wait for %d updates", turn)
	}
	if _, n, expected := c.gathered(); expected != n+turn {
		t.Errorf("has %d requests, expects %d, want %d", n, expected, n+turn)
	}
	for i := range places {
		places[i].Leave()
	}
	if _, n, expected := c.gathered(); expected != n {
		t.Errorf("has %d requests, expects %d after all updates have left", n, expected)
	}
}
