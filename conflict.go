package stoat

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/fault"
	"github.com/stoatdb/stoat/internal/memtable"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/txn"
)

// conflicts reports whether anything in reads was written by a transaction
// after since, visible or not.
//
// The memtables answer from the newest to the first that has nothing newer
// than since. Only for a transaction that began before the oldest of them did,
// the tables with anything newer are asked, too. What a flush or a compaction
// dropped in the meantime does not matter: it drops nothing that makes a
// difference to what this transaction would read now.
func (d *DB) conflicts(reads *txn.ReadSet, since base.SeqNum) (bool, error) {
	if reads.Empty() {
		return false, nil
	}
	if mutant.On(mutant.ValidateOffByOne) {
		since++
	}
	// The slot of the transaction keeps the view that it has read, and that one may
	// be older. Close waits for commits: this is no new reader.
	slot := d.readers.Acquire(&d.visible)
	defer d.release(slot)
	v := d.pin(slot)
	for _, t := range v.tables {
		last := t.LastSeq()
		if last == 0 {
			continue // nothing in it yet
		}
		if last <= since {
			return false, nil // and so is all that is below
		}
		hit := false
		t.Newer(since, func(hash uint32, ref memtable.Ref) bool {
			hit = d.wasRead(reads, t, hash, ref)
			return !hit
		})
		if !hit && t.HasDeletions() {
			t.NewerDeletions(since, func(lo, hi []byte) bool {
				hit = reads.Intersects(lo, hi)
				return !hit
			})
		}
		if hit {
			return true, nil
		}
	}
	hit := false
	err := fault.Guard(func() (err error) { hit, err = v.tree.Conflicts(reads, since); return err })
	return hit, err
}

// wasRead reports whether reads include the key of an entry of t.
func (d *DB) wasRead(reads *txn.ReadSet, t *memtable.Table, hash uint32, ref memtable.Ref) bool {
	if reads.MayHavePoint(hash) && reads.HasPoint(base.Hash(t.Key(ref), d.hashSeed)) {
		return true
	}
	return reads.HasRanges() && reads.Covers(t.Key(ref))
}
