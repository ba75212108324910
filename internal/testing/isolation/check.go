package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Report is the result of Check.
type Report struct {
	Committed, Conflicted, Discarded int
	// Reads counts the point reads and scans that were replayed.
	Reads int
	// Spurious are transactions that got a conflict although no commit changed
	// anything that they had read. They break no promise of isolation.
	Spurious []*Txn
}

// violationsMax is how many violations of a broken history Check reports.
const violationsMax = 5

// A checker replays one history.
type checker struct {
	history *History
	states  *states
	// byVersion holds the committed writing transactions in commit order.
	byVersion []*Txn
	report    Report
	errs      []error
}

// Check proves that the history is strictly serializable, or returns an error
// that names the violations.
func Check(h *History) (Report, error) {
	c := &checker{history: h}
	c.order()
	if len(c.errs) == 0 {
		c.build()
		c.replayAll()
		c.realTime()
	}
	return c.report, errors.Join(c.errs...)
}

func (c *checker) fail(format string, args ...any) {
	if len(c.errs) < violationsMax {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// order sorts the commits and demands that their versions count up by one. The
// commits without a reported version get the versions that are left, in their
// order.
func (c *checker) order() {
	var untold []*Txn
	for _, t := range c.history.Txns {
		c.count(t)
		if t.Untold != 0 {
			untold = append(untold, t)
			continue
		}
		if t.CommitVersion != 0 {
			if t.Outcome != Committed {
				c.fail("a transaction that did not commit has a commit version: %v", t)
			}
			c.byVersion = append(c.byVersion, t)
			continue
		}
		if t.Outcome == Committed && t.Writes() {
			c.fail("a transaction committed writes without a version: %v", t)
		}
	}
	c.assignVersions(untold)
	slices.SortFunc(c.byVersion, func(a, b *Txn) int { return cmp.Compare(a.CommitVersion, b.CommitVersion) })
	for i, t := range c.byVersion {
		if want := c.history.Base + uint64(i) + 1; t.CommitVersion != want {
			c.fail("commit versions have a gap or a duplicate: got %d, want %d: %v", t.CommitVersion, want, t)
			return
		}
		if t.CommitVersion <= t.ReadVersion {
			c.fail("a transaction committed at or before its own snapshot: %v", t)
		}
	}
}

// assignVersions gives the transactions without a reported version the free
// versions, in the order of Untold.
func (c *checker) assignVersions(untold []*Txn) {
	slices.SortFunc(untold, func(a, b *Txn) int { return cmp.Compare(a.Untold, b.Untold) })
	taken := make(map[uint64]bool)
	for _, t := range c.byVersion {
		taken[t.CommitVersion] = true
	}
	next := c.history.Base + 1
	for _, t := range untold {
		for taken[next] {
			next++
		}
		t.CommitVersion = next
		next++
	}
	c.byVersion = append(c.byVersion, untold...)
}

func (c *checker) count(t *Txn) {
	switch t.Outcome {
	case Committed:
		c.report.Committed++
	case Conflicted:
		c.report.Conflicted++
	default:
		c.report.Discarded++
	}
}

// build makes the states of the history from its commits.
func (c *checker) build() {
	c.states = newStates(c.history.Initial)
	for _, t := range c.byVersion {
		for i := range t.Ops {
			if op := &t.Ops[i]; op.Kind == OpSet || op.Kind == OpDelete {
				c.states.row(op.Key)
			}
		}
	}
	for _, t := range c.byVersion {
		c.states.commit(pendingAfter(t), t.CommitVersion)
	}
	c.states.sort()
}

// pendingAfter returns what a transaction writes when it commits.
func pendingAfter(t *Txn) *pending {
	own := newPending()
	for i := range t.Ops {
		own.apply(&t.Ops[i])
	}
	return own
}

func (c *checker) replayAll() {
	newest := c.history.Base + uint64(len(c.byVersion))
	for _, t := range c.history.Txns {
		if t.ReadVersion > newest || t.ReadVersion < c.history.Base {
			c.fail("a snapshot at %d, outside %d to %d: %v", t.ReadVersion, c.history.Base, newest, t)
			continue
		}
		c.replay(t, t.ReadVersion, "its snapshot")
		if t.CommitVersion != 0 {
			c.replay(t, t.CommitVersion-1, "the state just before its commit")
		}
		if t.Outcome == Conflicted && !c.hasReason(t) {
			c.report.Spurious = append(c.report.Spurious, t)
		}
	}
}

// replay repeats the operations of t on the state as of seq.
func (c *checker) replay(t *Txn, seq uint64, where string) {
	v := &view{states: c.states, seq: seq, own: newPending()}
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case OpGet:
			c.report.Reads++
			if it, found := v.get(op.Key); found != op.Found || it != op.Item {
				c.fail("%v read %v, but in %s (%d) it is %s@%d (found %v)\n%s",
					name(t), op, where, seq, brief(it.Value), it.Version, found, c.concurrentWriters(t, op.Key, op.Key+"\x00"))
			}
		case OpScan:
			c.report.Reads++
			c.replayScan(t, op, v, where)
		default:
			v.own.apply(op)
		}
	}
}

func (c *checker) replayScan(t *Txn, op *Op, v *view, where string) {
	limit := len(op.Items)
	if op.Exhausted {
		limit = -1
	} else if limit != op.Query.Limit {
		c.fail("%v stopped a scan before its limit and its end: %v", name(t), op)
		return
	}
	if want := v.scan(op.Query, limit); !slices.Equal(op.Items, want) {
		c.fail("%v did %v, but in %s (%d) it is %s\n%s", name(t), op, where, v.seq,
			itemsString(want, op.Exhausted), c.concurrentWriters(t, op.Query.Lo, op.Query.Hi))
	}
}

func name(t *Txn) string { return fmt.Sprintf("txn %d.%d", t.Client, t.Number) }

// concurrentWriters formats the transaction, and the commits that wrote into the
// range between its snapshot and its commit.
func (c *checker) concurrentWriters(t *Txn, lo, hi string) string {
	s := "  " + t.String()
	for _, other := range c.byVersion {
		if other.CommitVersion <= t.ReadVersion || t.CommitVersion != 0 && other.CommitVersion >= t.CommitVersion {
			continue
		}
		if pendingAfter(other).writes(span{lo, hi}) {
			s += "\n  " + other.String()
		}
	}
	return s
}

// hasReason reports whether a commit after the snapshot of t wrote anything that
// t had read. It ignores commits that were certainly called after the end of t.
func (c *checker) hasReason(t *Txn) bool {
	through := t.ReadVersion
	for _, other := range c.byVersion {
		if other.EndCalled < t.Ended {
			through = max(through, other.CommitVersion)
		}
	}
	var reads []span
	own := newPending()
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case OpGet:
			if _, pending := own.get(op.Key); !pending {
				reads = append(reads, span{op.Key, op.Key + "\x00"})
			}
		case OpScan:
			lo, hi := covered(op)
			reads = append(reads, span{lo, hi})
		default:
			own.apply(op)
		}
	}
	for _, other := range c.byVersion {
		if other.CommitVersion <= t.ReadVersion || other.CommitVersion > through {
			continue
		}
		if p := pendingAfter(other); slices.ContainsFunc(reads, p.writes) {
			return true
		}
	}
	return false
}

// covered returns the range that a scan really read.
func covered(op *Op) (lo, hi string) {
	lo, hi = op.Query.Lo, op.Query.Hi
	if op.Exhausted || len(op.Items) == 0 {
		return lo, hi
	}
	last := op.Items[len(op.Items)-1].Key
	if op.Query.Reverse {
		return last, hi
	}
	return lo, last + "\x00"
}

// realTime demands that versions agree with the clock of the clients.
func (c *checker) realTime() {
	c.checkStale()
	c.checkFuture()
}

// checkStale: the snapshot of a transaction includes everything that was known
// before the transaction began, which is commits and the snapshots of others.
func (c *checker) checkStale() {
	began := slices.Clone(c.history.Txns)
	slices.SortFunc(began, func(a, b *Txn) int { return cmp.Compare(a.BeginCalled, b.BeginCalled) })
	type known struct {
		at      int64
		version uint64
		by      *Txn
	}
	var facts []known
	for _, t := range c.history.Txns {
		facts = append(facts, known{t.Began, t.ReadVersion, t})
		if t.CommitVersion != 0 {
			facts = append(facts, known{t.Ended, t.CommitVersion, t})
		}
	}
	slices.SortFunc(facts, func(a, b known) int { return cmp.Compare(a.at, b.at) })
	var newest known
	for _, t := range began {
		for len(facts) > 0 && facts[0].at < t.BeginCalled {
			if facts[0].version > newest.version {
				newest = facts[0]
			}
			facts = facts[1:]
		}
		if t.ReadVersion < newest.version {
			c.fail("stale snapshot: %d was known before it began\n  %v\n  %v", newest.version, t, newest.by)
		}
	}
}

// checkFuture: no snapshot includes a commit that was called after the snapshot
// was taken.
func (c *checker) checkFuture() {
	began := slices.Clone(c.history.Txns)
	slices.SortFunc(began, func(a, b *Txn) int { return cmp.Compare(b.Began, a.Began) })
	called := slices.Clone(c.byVersion)
	slices.SortFunc(called, func(a, b *Txn) int { return cmp.Compare(b.EndCalled, a.EndCalled) })
	var oldest *Txn
	for _, t := range began {
		for len(called) > 0 && called[0].EndCalled > t.Began {
			if oldest == nil || called[0].CommitVersion < oldest.CommitVersion {
				oldest = called[0]
			}
			called = called[1:]
		}
		if oldest != nil && oldest.CommitVersion <= t.ReadVersion {
			c.fail("a snapshot from the future: commit %d was called after it began\n  %v\n  %v",
				oldest.CommitVersion, t, oldest)
		}
	}
}
