package commit

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/readset"
	"github.com/stoatdb/stoat/internal/turns"
)

// validate returns ErrConflict if a transaction wrote since what r read.
func (c *Committer) validate(r *Request) error {
	reads := &r.writes.Reads
	hit, err := c.conflicts(reads, r.since, func(lo, hi []byte) {
		if r.retried {
			claim := claimOf(reads, lo, hi)
			r.lost = &claim
		}
	})
	if hit {
		c.Counts.Conflicts.Add(1)
		return base.ErrConflict
	}
	return err
}

// conflicts reports whether anything in reads was written by a transaction after
// since, visible or not. Then it calls tell with the keys that were written, which are
// borrowed during the call. hi is nil for one key. Both are nil if the keys are not known.
//
// The memtables answer from the newest to the first that has nothing newer than
// since. If the transaction began before the oldest memtable, the tables with anything
// newer are asked, too. What a flush or a compaction dropped meanwhile does not matter:
// the transaction would read the same without it.
func (c *Committer) conflicts(reads *readset.Set, since base.SeqNum, tell func(lo, hi []byte)) (bool, error) {
	if reads.Empty() {
		return false, nil
	}
	if mutant.On(mutant.ValidateOffByOne) {
		since++
	}
	// The slot of the transaction keeps the view that it has read, and that one may
	// be older.
	slot := c.store.AcquireForCommit()
	defer c.store.Release(slot)
	v := c.store.Pin(slot)
	for _, t := range v.Memtables {
		last := t.LastSeq()
		if last == 0 {
			continue // nothing in it yet
		}
		if last <= since {
			return false, nil // and so is all that is below
		}
		if c.conflictsIn(t, reads, since, tell) {
			return true, nil
		}
	}
	hit := false
	err := fault.Guard(func() (err error) { hit, err = v.Tree.Conflicts(reads, since); return err })
	if hit {
		tell(nil, nil)
	}
	return hit, err
}

// conflictsIn reports whether t has anything in reads that was written after
// since.
func (c *Committer) conflictsIn(t *memtable.Table, reads *readset.Set, since base.SeqNum, tell func(lo, hi []byte)) (hit bool) {
	t.Newer(since, func(hash uint32, ref memtable.Ref) bool {
		if hit = c.wasRead(reads, t, hash, ref); hit {
			tell(t.Key(ref), nil)
		}
		return !hit
	})
	if !hit && t.HasDeletions() {
		t.NewerDeletions(since, func(lo, hi []byte) bool {
			if hit = reads.Intersects(lo, hi); hit {
				tell(lo, hi)
			}
			return !hit
		})
	}
	return hit
}

// wasRead reports whether reads include the key of an entry of t.
func (c *Committer) wasRead(reads *readset.Set, t *memtable.Table, hash uint32, ref memtable.Ref) bool {
	if reads.MayHavePoint(hash) && reads.HasPoint(base.Hash(t.Key(ref), c.o.HashSeed)) {
		return true
	}
	return reads.HasRanges() && reads.Covers(t.Key(ref))
}

// claimOf returns the claim of a transaction that has lost the keys from lo to hi, as
// conflicts tells them. A transaction that has read a range claims all of it: the next one
// that reads the range finds another key there. One that has lost something in tables has
// run for long, and claims everything between the first and the last key that it has read.
func claimOf(reads *readset.Set, lo, hi []byte) turns.Claim {
	var claim turns.Claim
	switch {
	case lo == nil:
		claim = turns.Claim(reads.Extent())
	case hi != nil:
		claim = turns.Claim{Lo: lo, Hi: hi}
	default:
		if g, ok := reads.RangeOf(lo); ok {
			claim = turns.Claim(g)
		} else {
			claim = turns.Claim{Lo: lo, Hi: append(bytes.Clone(lo), 0)}
		}
	}
	return claim.Clone()
}
