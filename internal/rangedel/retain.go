package rangedel

import (
	"sort"

	"github.com/stoatdb/stoat/internal/base"
)

// Retain returns the part of the list that a flush or a compaction must keep.
// snapshots are those that readers use or may still take, ascending. Of each
// fragment, Retain keeps the newest number up to each snapshot, which is the one
// that the snapshot uses. It keeps all numbers beyond the last snapshot. At the
// bottom level, nothing older lies below. There the number that the oldest
// snapshot uses hides nothing, and Retain drops it. Without snapshots it keeps
// everything.
//
//	snapshots      4       7
//	numbers      1 3 4   5 6   8 9
//	kept             4     6   8 9
//	at the bottom          6   8 9
func (l *List) Retain(snapshots []base.SeqNum, bottom bool) *List {
	if l == nil || len(snapshots) == 0 {
		return l
	}
	var out builder
	var buf []base.SeqNum
	for i := range l.los {
		buf = retain(buf[:0], l.numbers(i), snapshots, bottom)
		out.add(l.los[i], l.his[i], buf)
	}
	return out.list()
}

// retain appends the numbers to keep to dst. Numbers descend.
func retain(dst, seqs, snapshots []base.SeqNum, bottom bool) []base.SeqNum {
	n := len(snapshots) // the snapshots below n have no number yet
	for _, s := range seqs {
		switch {
		case s > snapshots[len(snapshots)-1]:
			dst = append(dst, s)
		case bottom && s <= snapshots[0]:
			return dst
		case n > 0 && s <= snapshots[n-1]:
			dst = append(dst, s)
			n = sort.Search(n, func(i int) bool { return snapshots[i] >= s })
		}
	}
	return dst
}

// Retained returns Build(deletions).Retain(snapshots, false) without building
// all fragments, of which there may be far more: see the package comment.
// deletions must be in ascending order of their numbers.
func Retained(deletions []Deletion, snapshots []base.SeqNum) *List {
	var lists []*List
	rest := deletions
	for _, s := range snapshots {
		n := sort.Search(len(rest), func(j int) bool { return rest[j].Seq > s })
		// The later of two snapshots uses only the newest number between them.
		lists = append(lists, newestDeletions(rest[:n]))
		rest = rest[n:]
	}
	return Merge(append(lists, Build(rest))...)
}

// newestDeletions returns a list in which each fragment has only its newest
// number.
func newestDeletions(deletions []Deletion) *List {
	if len(deletions) <= leafSize {
		return newestOf(Build(deletions))
	}
	half := len(deletions) / 2
	return newestOf(newestDeletions(deletions[:half]), newestDeletions(deletions[half:]))
}
