package tree

import (
	"sync"
	"sync/atomic"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// A levelDeletions holds the range tombstones of a level as one list, made when an
// iterator first needs it. The tables of a level do not overlap, so one search
// finds the range tombstones of any of them that cover a key.
type levelDeletions struct {
	bytes atomic.Int64 // about how much memory the list takes, without the keys
	mu    sync.Mutex

	// Guarded by mu.

	made bool
	list *rangedel.List
}

// get returns the list of level l, to which d belongs.
func (d *levelDeletions) get(l *level, files *Files) (*rangedel.List, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made {
		return d.list, nil
	}
	var lists []*rangedel.List
	for _, t := range l.tables {
		if t.RangeDeletions == 0 {
			continue
		}
		r, err := files.reader(t)
		if err != nil {
			return nil, err
		}
		lists = append(lists, r.Deletions())
	}
	d.list, d.made = rangedel.Merge(lists...), true
	d.bytes.Store(d.list.Bytes())
	return d.list, nil
}

// AddDeletions adds to c the range tombstones visible to a snapshot at sequence
// number at.
func (v *View) AddDeletions(c *rangedel.Cursor, at base.SeqNum) error {
	for i := range v.levels {
		if l := &v.levels[i]; l.deletions != nil {
			list, err := l.deletions.get(l, v.files)
			if err != nil {
				return err
			}
			c.Add(list, at, 0)
		}
	}
	return nil
}

// Deletions returns the range tombstones of all tables as one list.
func (v *View) Deletions() (*rangedel.List, error) {
	var lists []*rangedel.List
	for i := range v.levels {
		if l := &v.levels[i]; l.deletions != nil {
			list, err := l.deletions.get(l, v.files)
			if err != nil {
				return nil, err
			}
			lists = append(lists, list)
		}
	}
	return rangedel.Merge(lists...), nil
}

// hides reports whether a range tombstone of a table, up to at, hides the table's result
// for key. If found is true, the result is the version with the number seq. If found is
// false, hides asks about the versions in older tables.
func hides(l *rangedel.List, key []byte, at, seq base.SeqNum, found bool) bool {
	cover := l.Cover(key, at)
	return cover > seq || cover != 0 && !found
}
