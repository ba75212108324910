package transaction

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/gaps"
)

// setGaps lets the iterator use and add gaps if it shows all that lives at its version.
// Beside that, it may show only the transaction's own single keys.
func (c *core) setGaps() {
	c.snapshot.Gaps = nil
	w := c.tx.s.writes
	if c.tx.s.engine.NoGaps || c.snapshot.AllVersions || c.snapshot.Since > 0 || w != nil && w.Pending.HasDeletions() {
		return
	}
	c.gaps = gapReader{index: &c.tx.s.engine.gaps, tx: c.tx, at: c.snapshot.At, timed: &c.timed}
	c.snapshot.Gaps = &c.gaps
}

// A gapReader connects an iterator with the gaps of the database. It implements
// iter.Gaps.
type gapReader struct {
	index *gaps.Index
	tx    Txn
	at    base.SeqNum
	timed *timedReads // of the iterator
}

// Find implements iter.Gaps.
func (r *gapReader) Find(key []byte) (*gaps.Gap, *gaps.Step) {
	if r.index.Len() == 0 {
		return nil, nil
	}
	g, s := r.index.Find(key, gaps.Reader{At: r.at, Clock: r})
	if s != nil && s.Time != 0 {
		r.tx.Expired(s.Time, false) // makes the time durable if the reader that added it could not
	}
	return g, s
}

// NowMs implements the clock of gaps.Reader.
func (r *gapReader) NowMs() uint64 { return r.tx.NowMs() }

// Add implements iter.Gaps. Once a keyspace has a discard point, compactions drop versions
// that older views still show. So what the iterator passed may be a gap for it alone.
func (r *gapReader) Add(s gaps.Step, on *gaps.Gap) {
	if g := r.timed.gate; g != nil && g.Floor() > 0 {
		return
	}
	if s.Time == 0 || s.Time <= r.tx.NowMs() {
		r.index.Add(s, r.at, on)
	}
}
