package rangedel

import (
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

const (
	// leafSize is how many deletions one leaf list holds, with all their
	// numbers.
	leafSize = 8
	// fan is how many lists of one level form a list of the next level.
	fan = 4
)

// A History holds deletions in the order of their writing, so their numbers
// ascend. It can answer for any snapshot:
//
//	level 2   newest of 512
//	level 1   newest of 128 | newest of 128 | newest of 128 | newest of 128
//	leaves    all of 32 | all of 32 | ...                              | tail
//
// For a snapshot, the largest lists that lie completely before it answer with
// their newest numbers, for many deletions at once. One leaf answers for the
// rest. So a snapshot needs a logarithmic number of lists, and each deletion is
// stored a logarithmic number of times, however the ranges overlap.
//
// A History is immutable and a nil one is empty. Extend returns the next one,
// which shares the finished lists.
type History struct {
	n      int
	levels [][]node
	tail   node
	// waiting are the deletions of the tail.
	waiting []Deletion
	// current are the lists for a snapshot that sees all deletions, newest
	// first.
	current []*List
	newest  base.SeqNum
	bytes   int64
}

// A node is a list of consecutive deletions of the history, with the numbers of
// the first and the last.
type node struct {
	list        *List
	first, last base.SeqNum
}

// Len returns the number of deletions in the history.
func (h *History) Len() int {
	if h == nil {
		return 0
	}
	return h.n
}

// Bytes returns roughly how much memory the history takes, without the keys.
func (h *History) Bytes() int64 {
	if h == nil {
		return 0
	}
	return h.bytes + h.tail.list.Bytes()
}

// Extend returns a history with more deletions after those of h. The caller may
// extend each h only once.
func (h *History) Extend(more []Deletion) *History {
	next := &History{}
	if h != nil {
		*next = *h
		next.levels, next.current = slices.Clone(h.levels), nil
	}
	for _, d := range more {
		invariant.Check(d.Seq >= next.newest, "a deletion at %d after one at %d", d.Seq, next.newest)
		next.newest = d.Seq
	}
	next.n += len(more)
	waiting := append(next.waiting[:len(next.waiting):len(next.waiting)], more...)
	for ; len(waiting) >= leafSize; waiting = waiting[leafSize:] {
		next.push(0, makeLeaf(waiting[:leafSize]))
	}
	next.waiting, next.tail = waiting, node{}
	if len(waiting) > 0 {
		next.tail = makeLeaf(waiting)
	}
	next.current = next.lists(base.SeqNum(1<<64 - 1))
	return next
}

func makeLeaf(d []Deletion) node {
	return node{list: Build(d), first: d[0].Seq, last: d[len(d)-1].Seq}
}

// push appends a node to a level. If this completes a group, it also appends a
// node to the level above. Older histories share the arrays but see only their
// part of them.
func (h *History) push(level int, nd node) {
	if level == len(h.levels) {
		h.levels = append(h.levels, nil)
	}
	h.bytes += nd.list.Bytes()
	nodes := append(h.levels[level], nd)
	h.levels[level] = nodes
	if len(nodes)%fan != 0 {
		return
	}
	var lists [fan]*List
	group := nodes[len(nodes)-fan:]
	for i := range group {
		lists[i] = group[i].list
	}
	h.push(level+1, node{list: newestOf(lists[:]...), first: group[0].first, last: nd.last})
}

// lists returns, newest first, lists that together know the newest deletion up to at of
// every key. The caller must ask them for at.
func (h *History) lists(at base.SeqNum) (lists []*List) {
	h.before(at, func(l *List) { lists = append(lists, l) })
	slices.Reverse(lists)
	return lists
}

// before calls visit for the lists that answer for at, oldest first.
func (h *History) before(at base.SeqNum, visit func(*List)) {
	for leaf := 0; len(h.levels) > 0 && leaf < len(h.levels[0]); {
		nd, size := h.largest(leaf, at)
		if nd.first > at {
			return
		}
		if nd.list != nil {
			visit(nd.list)
		}
		leaf += size
	}
	if h.tail.list != nil && h.tail.first <= at {
		visit(h.tail.list)
	}
}

// largest returns the largest node that begins with the given leaf and lies
// completely before at, or otherwise the leaf. It also returns the number of
// leaves that the node covers.
func (h *History) largest(leaf int, at base.SeqNum) (node, int) {
	best, size := h.levels[0][leaf], 1
	for level, n := 1, fan; level < len(h.levels) && leaf%n == 0; level, n = level+1, n*fan {
		nodes := h.levels[level]
		if i := leaf / n; i >= len(nodes) || nodes[i].last > at {
			break
		}
		best, size = nodes[leaf/n], n
	}
	return best, size
}

// Cover returns the newest number, at most at, of a deletion that covers key, or
// 0 if there is none.
func (h *History) Cover(key []byte, at base.SeqNum) base.SeqNum {
	if h == nil {
		return 0
	}
	if at >= h.newest {
		for _, l := range h.current {
			// Lists of later deletions come first and have newer numbers.
			if s := l.Cover(key, at); s != 0 {
				return s
			}
		}
		return 0
	}
	newest := base.SeqNum(0)
	h.before(at, func(l *List) { newest = max(newest, l.Cover(key, at)) })
	return newest
}

// AddTo adds the lists that answer for at to a cursor. as is that of Cursor.Add.
func (h *History) AddTo(c *Cursor, at, as base.SeqNum) {
	if h == nil {
		return
	}
	if at < h.newest {
		h.before(at, func(l *List) { c.Add(l, at, as) })
		return
	}
	for _, l := range h.current {
		c.Add(l, at, as)
	}
}
