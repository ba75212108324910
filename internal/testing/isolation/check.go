package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"math"
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

// StateAt returns what a scan of everything shows as of a version, which is the base of the
// history or later. At timestamps, it shows all versions. Check has accepted the history.
func StateAt(h *History, version uint64) []Item {
	c := &checker{history: h}
	c.order()
	c.build()
	v := &view{states: c.states, seq: version, own: newPending(h.Counts), timed: h.Timed}
	return v.scan(Query{All: h.Timed}, -1, math.MaxUint64)
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
	c.states = newStates(c.history)
	for _, t := range c.byVersion {
		for i := range t.Ops {
			switch op := &t.Ops[i]; op.Kind {
			case OpSet, OpDelete, OpMerge, OpRenew:
				c.states.row(op.stored())
			}
		}
	}
	for _, t := range c.byVersion {
		c.states.commit(c.pendingAfter(t), t.CommitVersion)
	}
	c.states.sort()
}

// pendingAfter returns what a transaction writes when it commits.
func (c *checker) pendingAfter(t *Txn) *pending {
	own := newPending(c.history.Counts)
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
	v := &view{states: c.states, seq: seq, own: newPending(c.history.Counts), timed: c.history.Timed}
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case OpGet:
			c.report.Reads++
			if it, found := v.get(op.Key, op.At); found != op.Found || found && it != op.Item {
				c.fail("%v read %v, but in %s (%d) it is %v (found %v)\n%s",
					name(t), op, where, seq, it, found, c.concurrentWriters(t, ofKey(op.Key)))
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
	if want := v.scan(op.Query, limit, op.At); !slices.Equal(op.Items, want) {
		c.fail("%v did %v, but in %s (%d) it is %s\n%s", name(t), op, where, v.seq,
			itemsString(want, op.Exhausted), c.concurrentWriters(t, span{op.Query.Lo, op.Query.Hi}))
	}
}

func name(t *Txn) string { return fmt.Sprintf("txn %d.%d", t.Client, t.Number) }

// concurrentWriters formats the transaction, and the commits that wrote into the
// range between its snapshot and its commit.
func (c *checker) concurrentWriters(t *Txn, in span) string {
	s := "  " + t.String()
	for _, other := range c.byVersion {
		if other.CommitVersion <= t.ReadVersion || t.CommitVersion != 0 && other.CommitVersion >= t.CommitVersion {
			continue
		}
		if c.pendingAfter(other).changes(reading{span: in, at: math.MaxUint64}) {
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
	reads := c.readings(t)
	for _, other := range c.byVersion {
		if other.CommitVersion <= t.ReadVersion || other.CommitVersion > through {
			continue
		}
		if p := c.pendingAfter(other); slices.ContainsFunc(reads, p.changes) {
			return true
		}
	}
	return false
}

// A reading is what one operation read: a span, up to a timestamp.
type reading struct {
	span
	at uint64
}

// changes reports whether p writes to what was read.
func (p *pending) changes(r reading) bool {
	for key := range p.keys {
		if r.holds(key) && stampOf(key) <= r.at {
			return true
		}
	}
	return slices.ContainsFunc(p.ranges, r.meets)
}

// readings returns all that t read.
func (c *checker) readings(t *Txn) (reads []reading) {
	v := &view{states: c.states, seq: t.ReadVersion, own: newPending(c.history.Counts), timed: c.history.Timed}
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case OpGet:
			if w, pending := v.own.get(op.Key); c.history.Timed {
				reads = append(reads, reading{v.passed(op.Key, op.At), op.At})
			} else if !pending || w.partial {
				reads = append(reads, reading{ofKey(op.Key), 0})
			}
		case OpScan:
			reads = append(reads, reading{covered(op), op.At})
		default:
			v.own.apply(op)
		}
	}
	return reads
}

// passed returns what a read of a key at a timestamp has to look at: the timestamps from
// there back to the first version.
func (v *view) passed(key string, at uint64) span {
	s := span{stamped(key, at), ofKey(key).hi}
	if found := v.all(s, at); len(found) > 0 {
		s.hi = stamped(key, found[0].At) + "\x00"
	}
	return s
}

// covered returns the range that a scan really read. A reverse scan at a timestamp comes to
// the earliest version of a key first, and reads all of them.
func covered(op *Op) span {
	s := span{op.Query.Lo, op.Query.Hi}
	if op.Exhausted || len(op.Items) == 0 {
		return s
	}
	last := &op.Items[len(op.Items)-1]
	switch at := last.stored(op.At != 0); {
	case !op.Query.Reverse:
		s.hi = at + "\x00"
	case op.Query.All:
		s.lo = at
	default:
		s.lo = last.Key
	}
	return s
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
		switch {
		case !t.Inside:
			facts = append(facts, known{t.Began, t.ReadVersion, t})
		case t.Outcome != Conflicted:
			facts = append(facts, known{t.Ended, t.ReadVersion, t})
		}
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
