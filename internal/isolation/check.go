package isolation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Report is what Check found.
type Report struct {
	Committed, Conflicted, Discarded int
	// Reads counts the point reads and scans that were replayed.
	Reads int
	// Spurious are transactions that were told of a conflict although nobody
	// changed anything they had read. They break no promise of isolation.
	Spurious []*Txn
}

// violationsMax bounds how much of a broken history is reported.
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
// that names what is not.
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

// order sorts the commits and demands that their versions count up by one.
func (c *checker) order() {
	for _, t := range c.history.Txns {
		c.count(t)
		if t.CommitVersion != 0 {
			if t.Outcome != Committed {
				c.fail("a transaction that did not commit has a commit version: %v", t)
			}
			c.byVersion = append(c.byVersion, t)
			continue
		}
		if t.Outcome == Committed && t.Writes() {
			c.fail("a transaction committed writes under no version: %v", t)
		}
	}
	slices.SortFunc(c.byVersion, func(a, b *Txn) int { return cmp.Compare(a.CommitVersion, b.CommitVersion) })
	for i, t := range c.byVersion {
		if want := c.history.Base + uint64(i) + 1; t.CommitVersion != want {
			c.fail("commit versions have a hole or a double: got %d, want %d: %v", t.CommitVersion, want, t)
			return
		}
		if t.CommitVersion <= t.ReadVersion {
			c.fail("a transaction committed at or before its own snapshot: %v", t)
		}
	}
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
		for key, value := range pendingAfter(t) {
			v := version{seq: t.CommitVersion, deleted: value == nil}
			if value != nil {
				v.value = *value
			}
			c.states.add(key, v)
		}
	}
	c.states.sort()
}

// pendingAfter is what a transaction writes when it commits.
func pendingAfter(t *Txn) map[string]*string {
	own := make(map[string]*string)
	for i := range t.Ops {
		apply(own, &t.Ops[i])
	}
	return own
}

func apply(own map[string]*string, op *Op) {
	switch op.Kind {
	case OpSet:
		own[op.Key] = &op.Value
	case OpDelete:
		own[op.Key] = nil
	}
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

// replay runs the operations of t again on the state as of seq.
func (c *checker) replay(t *Txn, seq uint64, where string) {
	v := &view{states: c.states, seq: seq, own: make(map[string]*string)}
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case OpGet:
			c.report.Reads++
			if it, found := v.get(op.Key); found != op.Found || it != op.Item {
				c.fail("%v read %v, but in %s (%d) it is %v@%d (found %v)\n%s",
					name(t), op, where, seq, it.Value, it.Version, found, c.culprits(t, op.Key, op.Key+"\x00"))
			}
		case OpScan:
			c.report.Reads++
			c.replayScan(t, op, v, where)
		default:
			apply(v.own, op)
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
			itemsString(want, op.Exhausted), c.culprits(t, op.Query.Lo, op.Query.Hi))
	}
}

func name(t *Txn) string { return fmt.Sprintf("txn %d.%d", t.Client, t.Number) }

// culprits shows the transaction and who wrote into the range between its
// snapshot and its commit.
func (c *checker) culprits(t *Txn, lo, hi string) string {
	s := "  " + t.String()
	for _, other := range c.byVersion {
		if other.CommitVersion <= t.ReadVersion || t.CommitVersion != 0 && other.CommitVersion >= t.CommitVersion {
			continue
		}
		for key := range pendingAfter(other) {
			if key >= lo && (hi == "" || key < hi) {
				s += "\n  " + other.String()
				break
			}
		}
	}
	return s
}

// hasReason reports whether a commit after the snapshot of t, and not surely
// after its end, changed something that t had read.
func (c *checker) hasReason(t *Txn) bool {
	through := t.ReadVersion
	for _, other := range c.byVersion {
		if other.EndCalled < t.Ended {
			through = max(through, other.CommitVersion)
		}
	}
	own := make(map[string]*string)
	for i := range t.Ops {
		op := &t.Ops[i]
		switch op.Kind {
		case OpGet:
			_, pending := own[op.Key]
			if r := c.states.byKey[op.Key]; !pending && r != nil && r.changedIn(t.ReadVersion, through) {
				return true
			}
		case OpScan:
			for _, r := range c.states.within(covered(op)) {
				if r.changedIn(t.ReadVersion, through) {
					return true
				}
			}
		default:
			apply(own, op)
		}
	}
	return false
}

// covered is the range a scan really looked at.
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
	c.seesThePast()
	c.seesNoFuture()
}

// seesThePast: whatever had ended before a transaction began is in its
// snapshot, commits as well as snapshots that others were given.
func (c *checker) seesThePast() {
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

// seesNoFuture: no snapshot holds a commit that was called after the snapshot
// was given.
func (c *checker) seesNoFuture() {
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
