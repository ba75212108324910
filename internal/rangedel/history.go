package rangedel

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/invariant"
)

const (
	// leafSize is how many deletions one list holds with all their numbers.
	leafSize = 8
	// fan is how many lists make one of the next level.
	fan = 4
)

// A History is deletions in the order in which they were written, so that
// their numbers ascend, prepared to answer for any snapshot:
//
//	level 2   newest of 512
//	level 1   newest of 128 | newest of 128 | newest of 128 | newest of 128
//	leaves    all of 32 | all of 32 | ...                              | tail
//
// For a snapshot, the lists that lie before it whole answer with what is
// newest in them, the largest of them for many deletions at once; and one leaf
// holds the rest. That is a logarithmic number of lists for a snapshot, and
// memory for each deletion a logarithmic number of times, whatever overlaps.
//
// A History is immutable and a nil one is empty; Extend makes the next one,
// which shares what is ready.
type History struct {
	n      int
	levels [][]node
	tail   node
	// waiting are the deletions of the tail.
	waiting []Deletion
	// current are the lists for a snapshot that sees everything, newest first.
	current []*List
	newest  base.SeqNum
	bytes   int64
}

// A node is a list of deletions that follow each other in the history, and
// the numbers of the first and the last of them.
type node struct {
	list        *List
	first, last base.SeqNum
}

// Len returns how many deletions are in the history.
func (h *History) Len() int {
	if h == nil {
		return 0
	}
	return h.n
}

// Bytes returns about how much memory the history takes beside the keys.
func (h *History) Bytes() int64 {
	if h == nil {
		return 0
	}
	return h.bytes + h.tail.list.Bytes()
}

// Extend returns a history with more deletions after those of h. Only one
// history may be made from h.
func (h *History) Extend(more []Deletion) *History {
	next := &History{}
	if h != nil {
		*next = *h
		next.levels, next.current = append([][]node(nil), h.levels...), nil
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
	next.current = next.Lists(base.SeqNum(1<<64-1), nil)
	return next
}

func makeLeaf(d []Deletion) node {
	return node{list: Build(d), first: d[0].Seq, last: d[len(d)-1].Seq}
}

// push appends a node to a level, and to the level above when that is due.
// Older histories share the arrays but see only their part of them.
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

// Lists appends to dst, newest first, lists that together tell for every key
// the newest deletion up to at, when they are asked for at.
func (h *History) Lists(at base.SeqNum, dst []*List) []*List {
	if h == nil {
		return dst
	}
	if at >= h.newest && h.current != nil {
		return append(dst, h.current...)
	}
	start := len(dst)
	h.before(at, func(l *List) { dst = append(dst, l) })
	for i, j := start, len(dst)-1; i < j; i, j = i+1, j-1 {
		dst[i], dst[j] = dst[j], dst[i]
	}
	return dst
}

// before calls visit for the lists that answer at at, oldest first.
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
// before at whole, or else the leaf, and how many leaves it stands for.
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

// Cover returns the newest number, at most at, of a deletion that covers key;
// 0 if there is none.
func (h *History) Cover(key []byte, at base.SeqNum) base.SeqNum {
	if h == nil {
		return 0
	}
	if at >= h.newest {
		for _, l := range h.current {
			// What comes later in the order of writing is newer.
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

// AddTo adds the lists that answer at at to a cursor; as is that of Cursor.Add.
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
