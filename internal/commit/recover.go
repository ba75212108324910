package commit

import (
	"errors"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/event"
	"github.com/stoatdb/stoat/internal/log"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/payload"
	"github.com/stoatdb/stoat/internal/values"
	"github.com/stoatdb/stoat/vfs"
)

// Recover replays the log into memtables and shows all of it to readers.
func (c *Committer) Recover(state *manifest.State) (err error) {
	r := replay{c: c, flushed: state.FlushedSeq, active: c.store.View().Memtables[0]}
	c.recovered, err = log.Recover(c.o.Log, state.Spans, r.enter, r.apply)
	slices.Reverse(r.more)
	c.store.AddMemtables(base.SegmentRef{}, r.more...) // also after an error, to be released
	if err != nil {
		return err
	}
	if c.o.Settings(0).ChangeRetention > 0 {
		c.Held.keepFrom(max(r.intact, 1))
	}
	c.lastSeq = max(r.last, state.FlushedSeq, state.LastSeq)
	if r.last < c.lastSeq {
		c.History.noteLack(r.last, c.lastSeq)
	}
	c.store.SetApplied(c.lastSeq)
	c.store.SetVisible(c.lastSeq)
	return nil
}

// Prove makes durable what recovery found at the end of the log, if that is needed. It
// starts a new log with a copy of that end. On a full disk it syncs the old log, and the
// first commit starts the new one. Until then no feed delivers that end as durable: a sync
// that failed before may have left it in memory only.
func (c *Committer) Prove() error {
	if !c.recovered.Unproven() {
		c.History.raiseDurable(c.lastSeq)
		return nil
	}
	err := c.StartLog()
	if errors.Is(err, vfs.ErrNoSpace) && c.store.EditErr() == nil {
		c.o.Report(event.Warning{What: "no space for a log, the database can only be read", Err: err})
		err = log.SyncTail(c.o.Log, c.recovered)
	}
	return err
}

// A replay applies recovered transactions to memtables, those that are not in
// tables already.
type replay struct {
	c       *Committer
	active  *memtable.Table
	more    []*memtable.Table // those behind the first one, which the store does not have yet
	flushed base.SeqNum       // everything up to it is in tables
	last    base.SeqNum       // the last one that was replayed

	segment     base.SegmentRef
	segmentSize int64
	// intact is a version from which on no value file of a commit is missing.
	intact base.SeqNum
}

// enter notes the segment of the transactions that follow.
func (r *replay) enter(ref base.SegmentRef, size int64) { r.segment, r.segmentSize = ref, size }

// apply takes one transaction from the log. Transactions follow each other. A gap is
// corruption, unless all that it skips is in tables. A Buffered commit may reach tables
// before a power cut takes it from the log.
func (r *replay) apply(encoded []byte) error {
	var head payload.Header
	store := r.c.store
	return payload.Decode(encoded, func(h payload.Header) error {
		if next := r.last + 1; h.Seq < next || h.Seq > next && h.Seq > r.flushed+1 {
			return base.Corrupt(-1, "sequence number of a transaction", uint64(h.Seq), uint64(next))
		}
		head, r.last = h, h.Seq
		r.c.History.noteCommit(r.segment, r.segmentSize, h.Seq)
		store.RestoreClock(h.TimeMs)
		if h.Seq > r.flushed && r.active.Len() > 0 && r.active.Bytes()+int64(len(encoded)) > r.c.o.MemtableSize {
			r.active = store.Memory.NewTable(r.active.Len())
			r.more = append(r.more, r.active)
		}
		return nil
	}, func(key, value []byte, m base.Meta) error {
		if m.Kind == base.KindPointer {
			p, err := values.DecodePointer(value)
			if err != nil {
				return err
			}
			r.hold(p.File, head.Seq)
		}
		if head.Seq <= r.flushed {
			return nil
		}
		return r.active.Set(key, value, base.Hash(key, r.c.o.HashSeed), m, head.Seq)
	})
}

// hold holds a value file that a transaction refers to. If the transaction is in tables,
// the file may have been rewritten without some of its values, or dropped.
func (r *replay) hold(n base.FileNum, seq base.SeqNum) {
	f, found := r.c.store.Version().Value(n)
	if seq <= r.flushed && (!found || f.File != n) {
		r.intact = seq + 1
		return
	}
	if r.c.Held.hold(n, seq) && found {
		r.c.History.weigh(f.Size)
	}
}
