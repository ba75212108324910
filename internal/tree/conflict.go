package tree

import (
	"bytes"
	"sort"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/readset"
	"github.com/stoatdb/stoat/internal/table"
)

// Conflicts reports whether a table has, newer than since, a version of a key in
// reads, or a range tombstone that covers part of reads. It skips levels and tables that
// have nothing newer. Of several newer tables in a level, it opens those with range
// tombstones, and those whose bounds hold part of reads.
func (v *View) Conflicts(reads *readset.Set, since base.SeqNum) (bool, error) {
	for i := range v.levels {
		l := &v.levels[i]
		if l.newest <= since {
			continue
		}
		if hit, err := l.keysConflict(v.files, reads, since); hit || err != nil {
			return hit, err
		}
		for _, t := range l.tables {
			if !t.newer(since) {
				continue
			}
			if hit, err := v.files.rangesConflict(t, reads, since); hit || err != nil {
				return hit, err
			}
		}
	}
	return false, nil
}

// newer reports whether t has anything newer than since.
func (t *Table) newer(since base.SeqNum) bool {
	return t.LargestSeq > since && !(t.SeqShift > 0 && mutant.On(mutant.IngestUnseen))
}

// keysConflict reports whether a table of the level has a version newer than since of a
// key that was read individually. It looks each key up in the only table that may have it.
// If a single table is newer, it looks all hashes up there: that needs neither bounds nor
// hashing.
func (l *level) keysConflict(files *Files, reads *readset.Set, since base.SeqNum) (hit bool, err error) {
	var last *Table
	n := 0
	for _, t := range l.tables {
		if t.newer(since) {
			last, n = t, n+1
		}
	}
	lookUp := func(t *Table, hash uint64) bool {
		if t.Filter.May(hash) {
			var r *table.Reader
			if r, err = files.reader(t); err == nil {
				hit, err = r.Newest(hash, since)
			}
		}
		return !hit && err == nil
	}
	if n == 1 {
		reads.Points(func(hash uint64) bool { return lookUp(last, hash) })
		return hit, err
	}
	reads.Keys(func(key []byte) bool {
		i := l.after(key, false) - 1
		if i < 0 || !l.tables[i].newer(since) || l.endsBefore(i, key) {
			return true
		}
		return lookUp(l.tables[i], base.Hash(key, files.opts.HashSeed))
	})
	return hit, err
}

// rangesConflict reports whether t has a range tombstone newer than since that covers part
// of reads, or a version newer than since of a key in a range of reads.
func (f *Files) rangesConflict(t *Table, reads *readset.Set, since base.SeqNum) (hit bool, err error) {
	if t.RangeDeletions > 0 {
		r, err := f.reader(t)
		if err != nil {
			return false, err
		}
		r.Deletions().Newer(since, func(lo, hi []byte) bool {
			hit = reads.Intersects(lo, hi)
			return !hit
		})
		if hit {
			return true, nil
		}
	}
	hit, err = f.newerIn(t, reads.Ranges(), since, nil)
	if hit || err != nil {
		return hit, err
	}
	if mutant.On(mutant.StampTablesUnread) {
		return false, nil
	}
	reads.Moments(func(ranges []readset.Range, includes func(key []byte) bool) bool {
		hit, err = f.newerIn(t, ranges, since, includes)
		return !hit && err == nil
	})
	return hit, err
}

// newerIn reports whether t has a version newer than since of a key in ranges, which
// ascend. See table.Reader.RangeNewer for includes.
func (f *Files) newerIn(t *Table, ranges []readset.Range, since base.SeqNum, includes func(key []byte) bool) (bool, error) {
	from := sort.Search(len(ranges), func(i int) bool {
		return ranges[i].Hi == nil || bytes.Compare(ranges[i].Hi, t.Smallest) > 0
	})
	for _, g := range ranges[from:] {
		if t.EndsBefore(g.Lo) {
			break
		}
		r, err := f.reader(t)
		if err != nil {
			return false, err
		}
		if hit, err := r.RangeNewer(g.Lo, g.Hi, since, includes); hit || err != nil {
			return hit, err
		}
	}
	return false, nil
}
