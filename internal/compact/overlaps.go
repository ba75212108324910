package compact

import (
	"bytes"
	"slices"
	"sort"

	"github.com/stoatdb/stoat/internal/manifest"
)

// An overlaps finds out whether a table overlaps any of the tables that were added before.
// To add a table, or to ask about one, takes about as many comparisons as a binary search.
// It is a binary indexed tree.
type overlaps struct {
	// starts are all tables that may be added, in the order of their smallest keys.
	starts []*manifest.Table
	// ends[i] is the table that ends last of those added from starts[i-i&-i] up to
	// starts[i-1], or nil. ends[0] is not used.
	ends []*manifest.Table
}

// newOverlaps prepares for the tables that may be added, and sorts them. None is added yet.
func newOverlaps(tables []*manifest.Table) *overlaps {
	slices.SortFunc(tables, func(a, b *manifest.Table) int { return bytes.Compare(a.Smallest, b.Smallest) })
	return &overlaps{starts: tables, ends: make([]*manifest.Table, len(tables)+1)}
}

// starting returns how many tables of starts begin before key. With orAt, it also counts
// those that begin at key.
func (o *overlaps) starting(key []byte, orAt bool) int {
	return sort.Search(len(o.starts), func(i int) bool {
		c := bytes.Compare(o.starts[i].Smallest, key)
		return c > 0 || c == 0 && !orAt
	})
}

// add adds one of the tables.
func (o *overlaps) add(t *manifest.Table) {
	for i := o.starting(t.Smallest, true); i < len(o.ends); i += i & -i {
		if u := o.ends[i]; u == nil || endsAfter(t, u) {
			o.ends[i] = t
		}
	}
}

// meets reports whether t overlaps a table that was added.
func (o *overlaps) meets(t *manifest.Table) bool {
	for i := o.starting(t.Largest, !t.LargestExclusive); i > 0; i -= i & -i {
		if u := o.ends[i]; u != nil && !u.EndsBefore(t.Smallest) {
			return true
		}
	}
	return false
}

// endsAfter reports whether t may hold a key after all keys of u.
func endsAfter(t, u *manifest.Table) bool {
	c := bytes.Compare(t.Largest, u.Largest)
	return c > 0 || c == 0 && !t.LargestExclusive && u.LargestExclusive
}
