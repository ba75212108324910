package iter

import (
	"bytes"
	"math/bits"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// A ref refers to an entry in the batch of a cursor. Its high bits are the
// number of the cursor, its low bits the index in the batch.
type ref uint32

const (
	refShift = 5
	placeMax = BatchSize - 1
	// RoundMax is the greatest number of entries in a round.
	RoundMax = 2 * BatchSize
)

// The low bits of a ref count to exactly BatchSize.
var _ [0]struct{} = [BatchSize - 1<<refShift]struct{}{}

// A place is one cursor in the tree, with the head of its next entry.
type place struct {
	head   uint64
	cursor uint64
}

const (
	// vacant is the cursor of a place for which none has competed yet.
	vacant = ^uint64(0)
	// lastHead is the head of a cursor that is exhausted. Others may have it too.
	lastHead = ^uint64(0)
)

// Merging interleaves sources into one order: forward by ascending key and
// descending sequence number, backward the reverse.
//
// A loser tree orders the cursors by their next entry (Knuth, volume 3, 5.4.1). It has k
// nodes, a power of two. Cursor i is a leaf below node (i+k)/2, and node n is below node
// n/2. Each node keeps the cursor that lost there, and the winner goes up. When the cursor
// that won at the top moves to another entry, it competes again with the losers on its
// path. Unless heads are equal, no branch depends on the outcome, because the processor could
// not predict it.
type Merging struct {
	cursors []cursor
	group   Group   // positions the grouped cursors; nil if there are none
	tree    []place // tree[0] is the winner
	left    int     // how many cursors are not exhausted
	spent   bool    // the last round used up the batch of the winner
	// refs[:n] are the entries of the round, in order. They stay in place until
	// the next round.
	refs [RoundMax]ref
	n    int
	// alone says that the round is one piece of the batch of one cursor, which begins at
	// piece. The refs of such a round are not set until list.
	alone bool
	piece ref

	reverse bool
	flip    uint64 // all ones when going backward, see cursor.heads
	shared  []byte // a prefix that all keys in the batches share
	lim     bounds
	cover   fragment
	gap     *deadRun // the run in whose gap the reader is, or nil
	err     error
	// decides is the newest version that decides what its key shows. Older versions of the key
	// are then not needed. It is 0 if all versions are.
	decides base.SeqNum
	behind  []byte // memory for the first key after another one
}

// Init prepares m to read the inputs, before the first entry. It reuses memory
// of an earlier use. cover may be nil; with it, m skips keys that range
// tombstones cover.
func (m *Merging) Init(inputs []Input, reverse bool, lower, upper []byte, cover Cover) {
	if cap(m.cursors) < len(inputs) {
		m.cursors = make([]cursor, len(inputs))
	}
	nodes := nodesOf(len(inputs))
	if cap(m.tree) < nodes {
		m.tree = make([]place, nodes)
	}
	m.cursors, m.tree = m.cursors[:len(inputs)], m.tree[:nodes]
	for i, in := range inputs {
		c := &m.cursors[i]
		c.source, c.pending, c.grouped, c.maxSeq, c.batch.N, c.at = in.Source, in.Pending, in.Grouped, in.MaxSeq, 0, 0
	}
	m.group, m.left, m.spent, m.n = nil, 0, false, 0
	m.reverse, m.flip = reverse, 0
	if reverse {
		m.flip = ^uint64(0)
	}
	m.lim, m.err = bounds{lower, upper}, nil
	m.cover, m.gap = fragment{by: cover, reverse: reverse}, nil
}

// nodesOf returns how many nodes the tree of that many cursors has.
func nodesOf(cursors int) int { return 1 << bits.Len(uint(max(cursors, 1)-1)) }

// seek positions every source as Source.Seek does. The reader will probably read want
// entries.
func (m *Merging) seek(key []byte, want int) {
	m.left, m.spent, m.n, m.err = 0, false, 0, nil
	m.cover.forget()
	if len(m.cursors) >= manySources {
		want = (want + 1) / 2
	}
	if m.group != nil {
		m.group.Seek(key)
	}
	bound := m.lim.upper
	if m.reverse {
		bound = m.lim.lower
	}
	for i := range m.cursors {
		c := &m.cursors[i]
		c.seek(key, bound, want)
		if err := c.fill(m.reverse, m.lim); err != nil {
			m.fail(err)
			return
		}
		if !c.exhausted() {
			m.left++
		}
	}
	m.order()
}

// order makes the tree. If one cursor is left, that only becomes the winner.
func (m *Merging) order() {
	if m.left > 1 {
		m.share()
		m.build()
		return
	}
	for i := range m.cursors {
		if !m.cursors[i].exhausted() {
			m.tree[0].cursor = uint64(i)
		}
	}
}

// build makes the tree from the heads. Every cursor goes up until it comes to a node where
// none has competed yet. Leaves without a cursor are like exhausted ones.
func (m *Merging) build() {
	for i := range m.tree {
		m.tree[i].cursor = vacant
	}
	for i := range uint64(len(m.tree)) {
		x := place{lastHead, i}
		if i < uint64(len(m.cursors)) {
			x.head = m.cursors[i].head()
		}
		n := m.above(i)
		for ; n > 0 && m.tree[n].cursor != vacant; n /= 2 {
			if t := m.tree[n]; t.head < x.head || t.head == x.head && m.before(t.cursor, x.cursor) {
				m.tree[n], x = x, t
			}
		}
		m.tree[n] = x
	}
}

// passGap moves all cursors over the entries that the gap of r hides.
func (m *Merging) passGap(r *deadRun) {
	m.gap = r
	m.left, m.spent = 0, false
	for i := range m.cursors {
		c := &m.cursors[i]
		if !c.pending {
			for ; !c.exhausted() && r.passes(c); c.at++ {
			}
		}
		if c.exhausted() && c.batch.N > 0 {
			r.pass(c)
			c.expect, c.batch.Want = 0, firstWant
			if err := c.fill(m.reverse, m.lim); err != nil {
				m.fail(err)
				return
			}
		}
		if !c.exhausted() {
			m.left++
		}
	}
	m.order()
}

// next begins another round. It reports false at the end and on an error.
func (m *Merging) next() bool {
	m.n, m.alone = 0, false
	if m.spent {
		m.refill()
	}
	switch m.left {
	case 0:
		return false
	case 1:
		m.takeAll()
	default:
		m.interleave()
	}
	return true
}

// takeAll makes the rest of the winner's batch the round.
func (m *Merging) takeAll() {
	num := m.tree[0].cursor
	c := &m.cursors[num]
	m.alone, m.piece, m.n = true, ref(num)<<refShift|ref(c.at), c.batch.N-c.at
	c.at, m.spent = c.batch.N, true
}

// list sets the refs of a round that is one piece.
func (m *Merging) list() {
	for i := range m.refs[:m.n] {
		m.refs[i] = m.piece + ref(i)
	}
}

// interleave lists entries of several cursors until a batch is used up or the
// round is full.
func (m *Merging) interleave() {
	tree := m.tree
	x := tree[0]
	second := uint64(lastHead)
	for n := m.above(x.cursor); n > 0; n /= 2 {
		second = min(second, tree[n].head)
	}
	if first := &m.cursors[x.cursor]; first.heads[first.batch.N-1] < second {
		m.takeAll()
		return
	}
	n := 0
	for n < RoundMax {
		c := &m.cursors[x.cursor]
		m.refs[n] = ref(x.cursor)<<refShift | ref(c.at)
		n++
		if c.at++; c.at >= c.batch.N {
			m.spent = true
			break
		}
		x = m.compete(place{c.heads[c.at&placeMax], x.cursor})
	}
	tree[0], m.n = x, n
}

// above returns the node above the leaf of a cursor.
func (m *Merging) above(cursor uint64) uint64 { return (cursor + uint64(len(m.tree))) / 2 }

// compete takes x, the cursor of the winner with its next entry, up the tree, and returns
// the new winner.
func (m *Merging) compete(x place) place {
	tree := m.tree
	for n := m.above(x.cursor); n > 0; n /= 2 {
		t := &tree[n&uint64(len(tree)-1)]
		if t.head == x.head {
			if m.before(t.cursor, x.cursor) {
				*t, x = x, *t
			}
			continue
		}
		_, less := bits.Sub64(t.head, x.head, 0)
		head, cursor := (t.head^x.head)&-less, (t.cursor^x.cursor)&-less
		t.head, x.head = t.head^head, x.head^head
		t.cursor, x.cursor = t.cursor^cursor, x.cursor^cursor
	}
	return x
}

// refill loads the next batch of the winner, whose batch the last round used up.
func (m *Merging) refill() {
	num := m.tree[0].cursor
	m.spent = false
	c := &m.cursors[num]
	m.passVersions(c) // first: the others may move further
	m.cover.pass(c)
	if m.gap != nil {
		m.gap.pass(c)
	}
	if err := c.fill(m.reverse, m.lim); err != nil {
		m.fail(err)
		return
	}
	switch {
	case c.exhausted():
		m.left--
	case m.left == 1:
		return // the only cursor left needs no heads
	case !c.shares(m.shared):
		m.order()
		return
	default:
		if c.setHeads(len(m.shared), m.flip); c.alike() {
			m.order()
			return
		}
	}
	m.tree[0] = m.compete(place{c.head(), num})
}

// versionsMin is the number of entries of one key in a batch from which a source seeks over the
// other versions of the key. For fewer, walking is cheaper.
const versionsMin = BatchSize / 2

// passVersions moves the source of c to the next key. It does so if the batch of c, which is used
// up, has only versions of one key, and one of them decides what the key shows. A memtable may
// have very many versions of a key. Tables have few, and a seek would load their block again.
func (m *Merging) passVersions(c *cursor) {
	n := c.batch.N
	if m.decides == 0 || n < versionsMin || c.pending || c.grouped || c.ended || !same(c.batch.Entries[0].Key, c.lastKey()) {
		return
	}
	if c.batch.Entries[n-1].Seq > m.decides && !mutant.On(mutant.PassUndecided) {
		return
	}
	m.behind = append(append(m.behind[:0], c.lastKey()...), 0)
	c.source.Seek(m.behind)
}

// headSlack is how many bytes of the shared prefix the heads still include. It
// keeps the shortened prefix valid when the last bytes of the prefix change.
const headSlack = 4

// share finds the prefix that the keys in all batches share, and sets all heads
// accordingly. The order of the entries does not depend on the prefix.
func (m *Merging) share() {
	var first []byte
	common := 0
	for i := range m.cursors {
		c := &m.cursors[i]
		if c.exhausted() {
			continue
		}
		if first == nil {
			first = c.key()
			common = len(first)
		}
		common = base.CommonLen(first[:common], c.key())
		common = base.CommonLen(first[:common], c.lastKey())
	}
	common = max(common-headSlack, 0)
	m.shared = append(m.shared[:0], first[:common]...)
	for i := range m.cursors {
		m.cursors[i].setHeads(common, m.flip)
	}
}

// exhausted reports whether nothing is left of a cursor, or of a leaf that has none.
func (m *Merging) exhausted(i uint64) bool {
	return i >= uint64(len(m.cursors)) || m.cursors[i].exhausted()
}

// before reports whether the next entry of cursor i comes before that of cursor j, if
// their heads are equal. An exhausted cursor comes last.
func (m *Merging) before(i, j uint64) bool {
	if m.exhausted(i) || m.exhausted(j) {
		return !m.exhausted(i)
	}
	a, b := &m.cursors[i], &m.cursors[j]
	order := bytes.Compare(a.key(), b.key())
	if order == 0 {
		return (a.batch.Entries[a.at].Seq > b.batch.Entries[b.at].Seq) != m.reverse
	}
	return (order < 0) != m.reverse
}

func (m *Merging) fail(err error) {
	m.err, m.left, m.spent = err, 0, false
}
