package stoat

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
)

// buildGroup validates, numbers, applies and encodes the members of g and
// writes them to the log. The caller holds build.
//
// A member that fails alone (a conflict, a full disk before anything was
// written) carries its error and leaves no trace. A failure once its writes
// have been applied is the group's and poisons the committer.
func (c *committer) buildGroup(g *group) {
	c.counts.groups.Add(1)
	c.last = g
	timeMs := c.db.nowMs()
	g.err = c.poisoned()
	for i := 0; i < len(g.members) && g.err == nil; i++ {
		g.err = c.build1(g, g.members[i], timeMs)
	}
	if l := c.db.log.Load(); g.err == nil && l != nil {
		g.err = l.Flush()
	}
	if g.err != nil {
		c.fail(g.err)
	} else if g.lastSeq > 0 {
		c.db.clock.keep(timeMs)
	}
}

// build1 takes one member through; the error it returns is fatal.
func (c *committer) build1(g *group, r *request, timeMs uint64) error {
	g.sync = g.sync || r.sync
	w := r.writes
	if w == nil {
		r.err = c.proveRecovered()
		return nil
	}
	if !mutant.On(mutant.SkipGroupCheck) {
		if r.err = c.validate(r); r.err != nil {
			return nil
		}
	}
	if r.err = g.refused; r.err != nil {
		return nil
	}
	if r.err = c.reserve(r.size()); r.err != nil {
		return nil
	}
	seq := c.lastSeq + 1
	if mutant.On(mutant.EarlyPublish) {
		c.db.visible.Store(uint64(seq))
	}
	c.db.admission.charge(r.size() + r.apartBytes)
	c.encode(w.pending, txn.Header{Seq: seq, TimeMs: timeMs, Count: uint32(w.pending.LiveLen())})
	c.apart += r.apartBytes
	bytes := w.pending.DataBytes() // a large table leaves the write set in apply
	if len(r.apart) > 0 {
		bytes += w.large
	}
	if err := c.db.apply(w, seq); err != nil {
		return err
	}
	c.lastSeq, g.lastSeq, r.seq = seq, seq, seq
	c.counts.commits.Add(1)
	c.counts.bytes.Add(bytes)
	return nil
}

// reserve makes room in the log for a record of n bytes, and the log itself if
// there is none yet. When it fails nothing has happened.
func (c *committer) reserve(n int64) error {
	if c.db.log.Load() == nil {
		if err := c.db.startLog(); err != nil {
			return err
		}
	}
	return c.db.log.Load().Reserve(n)
}

// proveRecovered makes durable what recovery found at the end of the old log,
// if that is not known to be so and a full disk has kept Open from it.
func (c *committer) proveRecovered() error {
	if c.db.log.Load() == nil && c.db.recovered.Unproven() {
		return c.db.startLog()
	}
	return nil
}

// encode hands a transaction to the log.
func (c *committer) encode(pending *memtable.Table, h txn.Header) {
	l := c.db.log.Load()
	l.Begin()
	c.head = h.AppendTo(c.head[:0])
	l.Write(c.head)
	for e := range pending.Entries {
		c.head = txn.AppendEntryHead(c.head[:0], e.Key, len(e.Value), e.Meta)
		l.Write(c.head)
		l.Write(e.Value)
	}
	l.End()
}

// apply puts a transaction's writes into the memtable, where they wait to
// become visible. A large transaction's own table joins the queue as it is.
// The caller holds build.
func (d *DB) apply(w *writeSet, seq base.SeqNum) error {
	size, active := w.pending.Bytes(), d.view.Load().tables[0]
	// The record of the transaction is in the segment that the log is at.
	from := d.log.Load().Current()
	if size >= d.opts.MemtableSize/2 {
		w.pending.Stamp(seq)
		if active.Len() == 0 {
			d.insert(from, w.pending)
		} else {
			d.add(from, newTable(0), w.pending)
		}
		w.pending = nil
		return nil
	}
	c := &d.commits
	if active.Len() > 0 && (active.Bytes()+size > d.opts.MemtableSize || c.apart > apartMax*d.opts.MemtableSize) {
		active = newTable(active.Len())
		d.add(from, active)
		c.apart = 0
	}
	return active.AppendTable(w.pending, seq)
}
