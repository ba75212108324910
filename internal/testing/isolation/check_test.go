package isolation

import (
	"slices"
	"strings"
	"testing"
)

// caughtWithin is how many random histories the checker may need to find a bug.
// Most bugs show in the first.
const caughtWithin = 400

func TestCheck_CorrectStorePasses(t *testing.T) {
	t.Parallel()
	conflicts := 0
	for seed := range uint64(200) {
		cfg := RandomConfig(seed)
		h, err := Run(newReference(noBug, cfg), cfg, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		report, err := Check(h)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(report.Spurious) > 0 {
			t.Fatalf("seed %d: conflict without a reason: %v", seed, report.Spurious[0])
		}
		conflicts += report.Conflicted
	}
	if conflicts == 0 {
		t.Error("no history had a conflict: the transactions did not overlap")
	}
}

func TestCheck_FindsEveryBug(t *testing.T) {
	t.Parallel()
	for _, b := range bugs {
		t.Run(strings.ReplaceAll(string(b), " ", "-"), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(caughtWithin) {
				if caught(t, b, seed) {
					t.Logf("caught in history %d", seed)
					return
				}
			}
			t.Errorf("bug %q was not caught in %d histories", b, caughtWithin)
		})
	}
}

func caught(t *testing.T, b bug, seed uint64) bool {
	t.Helper()
	cfg := RandomConfig(seed)
	cfg.Clients, cfg.Txns = max(cfg.Clients, 4), max(cfg.Txns, 20)
	h, err := Run(newReference(b, cfg), cfg, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Check(h)
	return err != nil || slices.Contains(needless, b) && len(report.Spurious) > 0
}

// smallHistory returns a correct history. TestCheck_SpoiledHistories changes it.
func smallHistory() *History {
	return &History{
		Base:    3,
		Initial: []Item{{Key: "a", Value: "1", Version: 2}, {Key: "c", Value: "1", Version: 3}},
		Txns: []*Txn{
			{Client: 0, BeginCalled: 1, Began: 2, EndCalled: 7, Ended: 8, ReadVersion: 3, CommitVersion: 4, Outcome: Committed, Ops: []Op{
				{Kind: OpGet, Key: "a", Found: true, Item: Item{Key: "a", Value: "1", Version: 2}},
				{Kind: OpSet, Key: "b", Value: "2"},
			}},
			{Client: 1, BeginCalled: 3, Began: 4, EndCalled: 9, Ended: 10, ReadVersion: 3, Outcome: Conflicted, Ops: []Op{
				{Kind: OpScan, Query: Query{}, Items: []Item{{Key: "a", Value: "1", Version: 2}, {Key: "c", Value: "1", Version: 3}}, Exhausted: true},
				{Kind: OpDelete, Key: "c"},
			}},
			{Client: 0, Number: 1, BeginCalled: 11, Began: 12, EndCalled: 13, Ended: 14, ReadVersion: 4, Outcome: Committed, Ops: []Op{
				{Kind: OpScan, Query: Query{Reverse: true, Limit: 2}, Items: []Item{{Key: "c", Value: "1", Version: 3}, {Key: "b", Value: "2", Version: 4}}},
			}},
		},
	}
}

func TestCheck_SmallHistory(t *testing.T) {
	t.Parallel()
	report, err := Check(smallHistory())
	if err != nil {
		t.Fatal(err)
	}
	if report.Committed != 2 || report.Conflicted != 1 || len(report.Spurious) != 0 || report.Reads != 4 {
		t.Errorf("report is %+v", report)
	}
}

func TestCheck_SpoiledHistories(t *testing.T) {
	t.Parallel()
	for _, spoil := range []struct {
		name, want string
		do         func(*History)
	}{
		{"a version twice", "gap or a duplicate", func(h *History) { h.Txns[2].CommitVersion = 4; h.Txns[2].ReadVersion = 3 }},
		{"a gap", "gap or a duplicate", func(h *History) { h.Txns[0].CommitVersion = 5 }},
		{"writes without a version", "without a version: ", func(h *History) { h.Txns[0].CommitVersion = 0 }},
		{"an aborted transaction with a version", "did not commit", func(h *History) { h.Txns[1].CommitVersion = 5 }},
		{"a commit in its own snapshot", "its own snapshot", func(h *History) { h.Txns[0].ReadVersion = 4 }},
		{"a wrong value", "its snapshot", func(h *History) { h.Txns[0].Ops[0].Item.Value = "2" }},
		{"a missing key", "its snapshot", func(h *History) { h.Txns[0].Ops[0].Found = false }},
		{"an aborted transaction that read wrong", "its snapshot", func(h *History) { h.Txns[1].Ops[0].Items = nil }},
		{"a scan that stopped early", "its limit and its end", func(h *History) { h.Txns[2].Ops[0].Items = h.Txns[2].Ops[0].Items[:1] }},
		{"a phantom that both committed", "just before its commit", func(h *History) {
			h.Txns[1].Outcome, h.Txns[1].CommitVersion = Committed, 5
			h.Txns[2].Ops = nil
		}},
		{"a gap among commits without a reported version", "gap or a duplicate", func(h *History) {
			h.Txns[0].CommitVersion, h.Txns[0].Untold = 0, 1
			h.Txns[2].CommitVersion, h.Txns[2].ReadVersion = 6, 4
		}},
		{"a set that an own deletion of a range takes", "its snapshot", func(h *History) {
			h.Txns[0].Ops = append(h.Txns[0].Ops, Op{Kind: OpDeleteRange, Query: Query{Lo: "a", Hi: "b\x00"}})
		}},
		{"a read of a deleted range that both committed", "just before its commit", func(h *History) {
			h.Txns[0].Ops[1] = Op{Kind: OpDeleteRange, Query: Query{Lo: "b"}}
			h.Txns[1].Outcome, h.Txns[1].CommitVersion = Committed, 5
			h.Txns[2].Ops = nil
		}},
		{"a stale snapshot", "stale snapshot", func(h *History) { h.Txns[2].ReadVersion = 3; h.Txns[2].Ops = nil }},
		{"a snapshot from the future", "from the future", func(h *History) {
			h.Txns[0].EndCalled, h.Txns[0].Ended = 20, 21
		}},
		{"a snapshot of nothing known", "outside", func(h *History) { h.Txns[1].ReadVersion = 9 }},
		{"a needless conflict", "", func(h *History) { h.Txns[1].Ops = h.Txns[1].Ops[1:] }},
	} {
		h := smallHistory()
		spoil.do(h)
		report, err := Check(h)
		if spoil.want == "" {
			if len(report.Spurious) != 1 {
				t.Errorf("%s: not counted: %v", spoil.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), spoil.want) {
			t.Errorf("%s: got error %v, want one with %q", spoil.name, err, spoil.want)
		}
	}
}
