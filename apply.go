package stoat

import (
	"errors"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
)

// errVersionsSpent is for commits after the one that got the last number.
var errVersionsSpent = errors.New("stoat: no version is left to commit as")

// buildGroup validates, numbers, applies and encodes the members of g and
// writes them to the log. The caller holds build.
//
// A member that fails alone (a conflict, a full disk, a lack of memory) carries
// its error and leaves no trace. A failure to write what has been applied is the
// group's and poisons the committer.
func (c *committer) buildGroup(g *group) {
	c.counts.groups.Add(1)
	c.last = g
	timeMs := c.db.nowMs()
	g.err = c.poisoned()
	for i := 0; i < len(g.members) && g.err == nil; i++ {
		g.members[i].err = c.build1(g, g.members[i], timeMs)
	}
	if l := c.db.log.Load(); g.err == nil && l != nil {
		g.err = l.Flush()
	}
	if g.err != nil {
		g.err = c.fail(g.err)
	}
	for _, r := range g.members {
		c.db.room.taken(r)
	}
	g.timeMs = timeMs
}

// build1 takes one member through. It is applied first: that can fail and then
// leaves nothing behind, while what the log has taken gets to the disk.
func (c *committer) build1(g *group, r *request, timeMs uint64) error {
	g.sync = g.sync || r.sync
	w := r.writes
	if w == nil {
		g.mark = true
		return c.proveRecovered()
	}
	if !mutant.On(mutant.SkipGroupCheck) {
		if err := c.validate(r); err != nil {
			return err
		}
	}
	if g.refused != nil {
		return g.refused
	}
	if c.lastSeq == base.SeqNumMax {
		return errVersionsSpent
	}
	if err := c.reserve(r.size()); err != nil {
		c.db.room.refusedBy(err)
		return err
	}
	seq := c.lastSeq + 1
	if mutant.On(mutant.EarlyPublish) {
		c.db.visible.Store(uint64(seq))
	}
	c.db.admission.charge(r.size())
	pending := w.pending // which leaves the write set if it is large
	if err := c.db.apply(r, seq); err != nil {
		return err
	}
	c.encode(pending, txn.Header{Seq: seq, TimeMs: timeMs, Count: uint32(pending.LiveLen())})
	c.lastSeq, g.lastSeq, r.seq = seq, seq, seq
	c.counts.commits.Add(1)
	c.counts.bytes.Add(pending.DataBytes() + r.moved)
	return nil
}

// reserve makes room in the log for a record of n bytes, and the log itself if
// there is none yet. When it fails nothing has happened.
func (c *committer) reserve(n int64) error {
	if c.db.log.Load() == nil {
		if err := c.startLog(); err != nil {
			return err
		}
	}
	l := c.db.log.Load()
	err := l.Reserve(n)
	if err != nil && l.Err() != nil {
		return c.fail(err) // it was to write what came before
	}
	return err
}

// startLog makes the log. When it fails on the manifest, all writing ends.
func (c *committer) startLog() error {
	err := c.db.startLog()
	if err != nil && c.db.manifest.Err() != nil {
		return c.fail(err)
	}
	return err
}

// proveRecovered makes durable what recovery found at the end of the old log,
// if that is not known to be so and a full disk has kept Open from it.
func (c *committer) proveRecovered() error {
	if c.db.log.Load() == nil && c.db.recovered.Unproven() {
		return c.startLog()
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
// When apply fails nothing has happened, but for an empty memtable. The caller
// holds build.
func (d *DB) apply(r *request, seq base.SeqNum) error {
	c, w := &d.commits, r.writes
	size, active := w.pending.Bytes(), d.view.Load().tables[0]
	// The record of the transaction is in the segment that the log is at.
	from := d.log.Load().Current()
	if size >= d.opts.MemtableSize/2 {
		w.pending.Stamp(seq)
		if active.Len() == 0 {
			d.insert(from, w.pending)
		} else {
			d.add(from, d.memory.newTable(0), w.pending)
			c.apart.Store(0)
		}
		w.pending = nil
		return nil
	}
	apart := c.apart.Load() + r.apartBytes
	if active.Len() > 0 && (active.Bytes()+size > d.admission.memtableMax() || apart > 0 && d.apartFull(apart)) {
		active = d.memory.newTable(active.Len())
		d.add(from, active)
		c.apart.Store(0)
	}
	if err := active.AppendTable(w.pending, seq); err != nil {
		return err
	}
	c.apart.Add(r.apartBytes)
	return nil
}
