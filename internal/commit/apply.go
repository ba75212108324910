package commit

import (
	"cmp"
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/partial"
	"github.com/stoatdb/stoat/internal/payload"
)

// ErrVersionsSpent is for commits after the one that got the last number.
var ErrVersionsSpent = errors.New("stoat: all version numbers are used")

// buildGroup validates, numbers, applies and encodes the members of g and writes
// them to the log. The caller holds build.
//
// A member that fails alone (a conflict, a full disk, a lack of memory) carries
// its error and leaves no trace. A failure to write what was applied fails the
// group and ends all commits.
func (c *Committer) buildGroup(g *group) {
	c.lastGroup = g
	timeMs := c.store.Now()
	g.err = c.Failed()
	for i := 0; i < len(g.members) && g.err == nil; i++ {
		g.members[i].err = c.buildMember(g, g.members[i], timeMs)
	}
	if g.lastSeq > 0 { // other groups only sync, or have conflicts
		c.Counts.Groups.Add(1)
	}
	// Flush even after a failed write of the manifest: Mark and Close rely on the records of
	// all applied members being written.
	if l := c.log.Load(); l != nil {
		g.err = cmp.Or(g.err, l.Flush())
	}
	if g.err != nil {
		g.err = c.Fail(g.err)
	}
	for _, r := range g.members {
		c.endPromise(r)
	}
	g.timeMs = c.lastMs
	if c.log.Load() != nil { // or nothing makes durable what recovery found
		g.built = c.lastSeq
	}
}

// buildMember takes one member through. It applies the member first: that can
// fail and then leaves nothing behind, while the log keeps what it has taken.
func (c *Committer) buildMember(g *group, r *Request, timeMs uint64) error {
	g.sync = g.sync || r.sync
	if r.writes == nil {
		g.mark = g.mark || r.sync
		return c.proveRecovered()
	}
	if !r.applied() {
		if err := c.record(r, timeMs, g.refused); err != nil {
			return err
		}
	}
	g.lastSeq = max(g.lastSeq, r.seq)
	return nil
}

// record validates and numbers a request, applies it to the memtable and encodes it for
// the log. refused, if it is not nil, is why there is no memory for it. The caller holds
// build.
func (c *Committer) record(r *Request, timeMs uint64, refused error) error {
	if !mutant.On(mutant.SkipGroupCheck) {
		if err := c.validate(r); err != nil {
			return err
		}
	}
	if refused != nil {
		return refused
	}
	w := r.writes
	if err := w.admitted(); err != nil {
		return err
	}
	if c.lastSeq == base.SeqNumMax {
		return ErrVersionsSpent
	}
	if err := c.reserve(r.size()); err != nil {
		c.o.Space.WriteFailed(err)
		return err
	}
	if w.lapse != 0 && c.store.Now() >= w.lapse { // reserve may have waited
		c.Counts.Conflicts.Add(1)
		return base.ErrConflict
	}
	seq := c.lastSeq + 1
	if mutant.On(mutant.EarlyPublish) {
		c.store.SetVisible(seq)
	}
	c.throttle.Charge(r.size())
	pending := w.Pending // which leaves the write set if it is large
	if w.Partial && !mutant.On(mutant.StaleSteps) {
		timeMs = c.store.Now() // reserve may have waited
		restamp(pending, timeMs)
	}
	timeMs = max(timeMs, c.lastMs) // which may be later than the beginning of the group
	if err := c.apply(r, seq); err != nil {
		return err
	}
	c.encode(pending, payload.Header{Seq: seq, TimeMs: timeMs, Count: uint32(pending.LiveLen())}, r.apartBytes)
	c.lastSeq, c.lastMs, r.seq = seq, timeMs, seq
	if r.numbered != nil {
		r.numbered(seq)
	}
	c.store.SetApplied(seq)
	c.Counts.Commits.Add(1)
	c.Counts.Bytes.Add(pending.DataBytes() + r.moved)
	return nil
}

// restamp gives the operands and renewals of a transaction the time of its commit. With an
// earlier time, they would bring a value back that a reader has found expired meanwhile.
func restamp(pending *memtable.Table, timeMs uint64) {
	for e := range pending.Entries {
		if e.Meta.Kind.Partial() {
			partial.Restamp(e.Value, timeMs)
		}
	}
}

// encode hands a transaction to the log. apart is the size of the value files that it
// wrote.
func (c *Committer) encode(pending *memtable.Table, h payload.Header, apart int64) {
	l := c.log.Load()
	ref, size := l.Place()
	c.History.noteCommit(ref, size, h.Seq)
	if apart > 0 {
		c.History.weigh(apart)
	}
	l.Begin()
	c.head = h.AppendTo(c.head[:0])
	l.Write(c.head)
	for e := range pending.Entries {
		c.head = payload.AppendEntryHead(c.head[:0], e.Key, len(e.Value), e.Meta)
		l.Write(c.head)
		l.Write(e.Value)
	}
	l.End()
}

// mostlyDead is a factor. A table that is more than mostlyDead times as large as its live
// writes counts as large as these: a copy leaves the rest behind.
const mostlyDead = 8

// shrinkMin is the size in bytes from which Shrink copies the writes of a transaction.
const shrinkMin = 1 << 20

// Shrink copies the writes of an open transaction if it has overwritten most of them itself.
// Each operand for a key replaces the one that stands for those before it. So many operands
// would take memory by the square of their number. The caller has lent none of the writes.
// If there is no memory for a copy, they stay as they are.
func (c *Committer) Shrink(w *WriteSet) {
	size := w.Pending.Bytes()
	if size < max(shrinkMin, w.shrinkFrom) {
		return
	}
	if (&Request{writes: w}).size() > size/mostlyDead {
		w.shrinkFrom = 2 * size // to look again takes longer than the writes since
		return
	}
	pending := c.store.Memory.NewPending()
	for e := range w.Pending.Entries {
		if err := pending.Set(e.Key, e.Value, base.Hash(e.Key, c.o.HashSeed), e.Meta, 0); err != nil {
			pending.Release()
			return
		}
	}
	w.Pending.Release()
	w.Pending, w.shrinkFrom = pending, 0
}

// apply puts the writes of a transaction into the memtable, where they wait to become
// visible. The table of a large transaction joins the view as it is, unless most of it is
// overwritten. When apply fails nothing has happened, but for an empty memtable. The caller
// holds build.
func (c *Committer) apply(r *Request, seq base.SeqNum) error {
	w := r.writes
	size, active := w.Pending.Bytes(), c.store.View().Memtables[0]
	if live := r.size(); size >= c.o.MemtableSize/2 && live < size/mostlyDead {
		size = live // a copy leaves behind what the transaction has overwritten
	}
	// The record of the transaction is in the current segment of the log.
	from := c.log.Load().Current()
	if size >= c.o.MemtableSize/2 {
		w.Pending.Stamp(seq)
		if active.Len() == 0 {
			c.store.InsertMemtable(from, w.Pending)
		} else {
			c.store.AddMemtables(from, c.store.Memory.NewTable(0), w.Pending)
			c.heldByActive.Store(0)
		}
		w.Pending = nil
		return nil
	}
	held := c.heldByActive.Load() + r.apartBytes
	if active.Len() > 0 && (active.Bytes()+size > c.throttle.MemtableMax() || held > 0 && c.heldFull(held)) {
		active = c.store.Memory.NewTable(active.Len())
		c.store.AddMemtables(from, active)
		c.heldByActive.Store(0)
	}
	if err := active.AppendTable(w.Pending, seq, c.foldOnApply); err != nil {
		return err
	}
	c.heldByActive.Add(r.apartBytes)
	return nil
}
