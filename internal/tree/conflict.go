package tree

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/readset"
	"github.com/stoatdb/stoat/internal/table"
)

// Conflicts reports whether a table has, newer than since, a version of a key in
// reads, or a range tombstone that covers part of reads. It skips levels and tables that
// have nothing newer.
func (v *View) Conflicts(reads *readset.Set, since base.SeqNum) (bool, error) {
	for i := range v.levels {
		if v.levels[i].newest <= since {
			continue
		}
		for _, t := range v.levels[i].tables {
			if t.LargestSeq <= since || t.SeqShift > 0 && mutant.On(mutant.IngestUnseen) {
				continue
			}
			r, err := v.files.reader(t)
			if err != nil {
				return false, err
			}
			if hit, err := conflicts(t, r, reads, since); hit || err != nil {
				return hit, err
			}
		}
	}
	return false, nil
}

func conflicts(t *Table, r *table.Reader, reads *readset.Set, since base.SeqNum) (hit bool, err error) {
	reads.Points(func(hash uint64) bool {
		if t.Filter.May(hash) {
			hit, err = r.Newest(hash, since)
		}
		return !hit && err == nil
	})
	if hit || err != nil {
		return hit, err
	}
	r.Deletions().Newer(since, func(lo, hi []byte) bool {
		hit = reads.Intersects(lo, hi)
		return !hit
	})
	if hit {
		return true, nil
	}
	hit, err = newerIn(t, r, reads.Ranges(), since, nil)
	if hit || err != nil {
		return hit, err
	}
	if mutant.On(mutant.StampTablesUnread) {
		return false, nil
	}
	reads.Moments(func(ranges []readset.Range, includes func(key []byte) bool) bool {
		hit, err = newerIn(t, r, ranges, since, includes)
		return !hit && err == nil
	})
	return hit, err
}

// newerIn reports whether t has a version newer than since of a key in ranges. See
// table.Reader.RangeNewer for includes.
func newerIn(t *Table, r *table.Reader, ranges []readset.Range, since base.SeqNum, includes func(key []byte) bool) (bool, error) {
	for _, g := range ranges {
		if g.Hi != nil && t.StartsAfter(g.Hi) || t.EndsBefore(g.Lo) || bytes.Equal(g.Hi, t.Smallest) {
			continue
		}
		if hit, err := r.RangeNewer(g.Lo, g.Hi, since, includes); hit || err != nil {
			return hit, err
		}
	}
	return false, nil
}
