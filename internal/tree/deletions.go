package tree

import (
	"sync"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// A levelDeletions is the range deletions of a level as one list, made when
// an iterator first asks for it: tables of a level do not overlap, so that one
// search finds what covers a key in any of them.
type levelDeletions struct {
	mu   sync.Mutex
	made bool
	list *rangedel.List
}

// get returns the list of l, whose deletions these are.
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
	return d.list, nil
}

// AddDeletions adds the range deletions that a snapshot at at sees to a cursor.
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

// Deletions returns the range deletions of all tables as one list.
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

// hides reports whether what a table has of key is hidden by a range deletion
// of the same table up to at: a version with the number seq, or, if there is
// none, whatever older tables have.
func hides(l *rangedel.List, key []byte, at, seq base.SeqNum, found bool) bool {
	cover := l.Cover(key, at)
	return cover > seq || cover != 0 && !found
}
