package commit

import (
	"testing"

	"github.com/stoatdb/stoat/internal/turns"
)

// The updates of a queue take turns, and most of them are not in the queue of commits yet.
// Without a wait for them, each small group makes the next one small.
func TestGather_ALeaderExpectsTheUpdatesThatTakeTurns(t *testing.T) {
	t.Parallel()
	const turn = 3
	store := newStore()
	defer store.Abandon()
	c := New(Options{Store: store, MemtableSize: storeMemtable})
	c.queue, c.early, c.groupSize = []*Request{SyncRequest()}, 1, 1
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
	if n, expected := c.gathered(); expected != n+turn {
		t.Errorf("has %d requests, expects %d, want %d", n, expected, n+turn)
	}
	for i := range places {
		places[i].Leave()
	}
	if n, expected := c.gathered(); expected != n {
		t.Errorf("has %d requests, expects %d after all updates have left", n, expected)
	}
}

// Two syncs at once take nearly as long as one after the other. A small group that began
// beside a sync would only lack the requests that come meanwhile.
func TestGather_ASmallGroupDoesNotBeginBesideASync(t *testing.T) {
	t.Parallel()
	store := newStore()
	defer store.Abandon()
	for name, c := range map[string]struct {
		leaders, size int
		syncing       bool
		bytes         int64
		early         int
		want          bool
	}{
		"alone":                       {leaders: 0, size: 2, syncing: true, bytes: 100, want: true},
		"beside a sync":               {leaders: 1, size: 2, syncing: true, bytes: 100, want: false},
		"large, beside a sync":        {leaders: 1, size: 2, syncing: true, bytes: besideBytes, want: true},
		"beside a group, no sync":     {leaders: 1, size: 2, bytes: 100, want: true},
		"few, beside many":            {leaders: 1, size: 3, bytes: besideBytes, want: false},
		"applied, beside a group":     {leaders: 1, size: 2, bytes: besideBytes, early: 1, want: false},
		"large, beside two":           {leaders: 2, size: 2, bytes: besideBytes, want: false},
		"applied, beside no group":    {leaders: 0, size: 2, syncing: true, bytes: 100, early: 1, want: true},
		"large, few, beside a sync":   {leaders: 1, size: 3, syncing: true, bytes: besideBytes, want: false},
		"beside two without any sync": {leaders: 2, size: 1, bytes: 100, want: false},
	} {
		q := New(Options{Store: store, MemtableSize: storeMemtable})
		q.queue, q.leaders, q.groupSize, q.groupSyncs = []*Request{SyncRequest()}, c.leaders, c.size, c.syncing
		q.queueBytes, q.early = c.bytes, c.early
		if got := q.worthLeadingLocked(); got != c.want {
			t.Errorf("%s: worth leading %t, want %t", name, got, c.want)
		}
	}
}
