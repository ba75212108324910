package iter

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// A ref refers to an entry in the batch of a cursor. Its high bits are the
// number of the cursor, its low bits the index in the batch.
type ref uint32

const (
	refShift = 5
	placeMax = BatchSize - 1
	// roundMax is how many entries one round lists at most.
	roundMax = 2 * BatchSize
)

// The low bits of a ref count to exactly BatchSize.
var _ [0]struct{} = [BatchSize - 1<<refShift]struct{}{}

// A place is one cursor in the queue, with the head of its next entry.
type place struct {
	head   uint64
	cursor uint32
}

// Merging interleaves sources into one order: forward by ascending key and
// descending sequence number, backward the reverse.
//
// The queue orders the cursors by their next entry. A database has few sources,
// and long runs of entries come from one of them. So moving the first cursor to
// its new place usually takes one comparison of two heads.
type Merging struct {
	cursors []cursor
	group   Group   // positions the grouped cursors; nil if there are none
	queue   []place // the cursors that are not exhausted, the next entry first
	spent   int     // the cursor whose batch the last round used up, or -1
	// refs[:n] are the entries of the round, in order. They stay in place until
	// the next round.
	refs [roundMax]ref
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
}

// Init prepares m to read the inputs, before the first entry. It reuses memory
// of an earlier use. cover may be nil; with it, m skips keys that range
// tombstones cover.
func (m *Merging) Init(inputs []Input, reverse bool, lower, upper []byte, cover Cover) {
	if cap(m.cursors) < len(inputs) {
		m.cursors = make([]cursor, len(inputs))
		m.queue = make([]place, 0, len(inputs))
	}
	m.cursors = m.cursors[:len(inputs)]
	for i, in := range inputs {
		c := &m.cursors[i]
		c.source, c.pending, c.grouped, c.maxSeq, c.batch.N, c.at = in.Source, in.Pending, in.Grouped, in.MaxSeq, 0, 0
	}
	m.group, m.queue, m.spent, m.n = nil, m.queue[:0], -1, 0
	m.reverse, m.flip = reverse, 0
	if reverse {
		m.flip = ^uint64(0)
	}
	m.lim, m.err = bounds{lower, upper}, nil
	m.cover, m.gap = fragment{by: cover, reverse: reverse}, nil
}

// seek positions every source as Source.Seek does. The reader will probably read want
// entries.
func (m *Merging) seek(key []byte, want int) {
	m.queue, m.spent, m.n, m.err = m.queue[:0], -1, 0, nil
	m.cover.forget()
	if len(m.cursors) >= manySources {
		want = (want + 1) / 2
	}
	if m.group != nil {
		m.group.Seek(key)
	}
	for i := range m.cursors {
		c := &m.cursors[i]
		c.seek(key, want)
		if err := c.fill(m.reverse, m.lim); err != nil {
			m.fail(err)
			return
		}
		if !c.exhausted() {
			m.queue = append(m.queue, place{cursor: uint32(i)})
		}
	}
	m.order()
}

// order puts the cursors of the queue in order.
func (m *Merging) order() {
	if len(m.queue) < 2 {
		return
	}
	m.share()
	for i := range m.queue {
		m.rise(i)
	}
}

// passGap moves all cursors over the entries that the gap of r hides.
func (m *Merging) passGap(r *deadRun) {
	m.gap = r
	m.queue, m.spent = m.queue[:0], -1
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
			m.queue = append(m.queue, place{cursor: uint32(i)})
		}
	}
	m.order()
}

// next begins another round. It reports false at the end and on an error.
func (m *Merging) next() bool {
	m.n, m.alone = 0, false
	if m.spent >= 0 {
		m.refill()
	}
	switch len(m.queue) {
	case 0:
		return false
	case 1:
		m.takeAll()
	default:
		m.interleave()
	}
	return true
}

// takeAll makes the rest of the first cursor's batch the round.
func (m *Merging) takeAll() {
	num := m.queue[0].cursor
	c := &m.cursors[num]
	m.alone, m.piece, m.n = true, ref(num)<<refShift|ref(c.at), c.batch.N-c.at
	c.at = c.batch.N
	m.drop()
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
	if first := &m.cursors[m.queue[0].cursor]; first.heads[first.batch.N-1] < m.queue[1].head {
		m.takeAll()
		return
	}
	queue, n := m.queue, 0
	for n < roundMax {
		num := queue[0].cursor
		c := &m.cursors[num]
		m.refs[n] = ref(num)<<refShift | ref(c.at)
		n++
		if c.at++; c.at >= c.batch.N {
			m.drop()
			break
		}
		head := c.heads[c.at&placeMax]
		i := 1
		for ; i < len(queue); i++ {
			if queue[i].head > head || queue[i].head == head && m.before(c, &m.cursors[queue[i].cursor]) {
				break
			}
			queue[i-1] = queue[i]
		}
		queue[i-1] = place{head, num}
	}
	m.n = n
}

// drop removes the first cursor, which is exhausted, from the queue.
func (m *Merging) drop() {
	m.spent = int(m.queue[0].cursor)
	m.queue = m.queue[:copy(m.queue, m.queue[1:])]
}

// refill loads the next batch of the cursor that the last round used up, and
// puts the cursor back into the queue.
func (m *Merging) refill() {
	num := m.spent
	m.spent = -1
	c := &m.cursors[num]
	m.cover.pass(c)
	if m.gap != nil {
		m.gap.pass(c)
	}
	if err := c.fill(m.reverse, m.lim); err != nil {
		m.fail(err)
		return
	}
	if c.exhausted() {
		return
	}
	m.queue = append(m.queue, place{cursor: uint32(num)})
	last := len(m.queue) - 1
	if last == 0 {
		return // the only cursor left needs no heads
	}
	if !c.shares(m.shared) {
		m.share()
	} else if c.setHeads(len(m.shared), m.flip); c.alike() {
		m.share()
	}
	m.queue[last].head = c.heads[0]
	m.rise(last)
}

// headSlack is how many bytes of the shared prefix the heads still include. It
// keeps the shortened prefix valid when the last bytes of the prefix change.
const headSlack = 4

// share finds the prefix that the keys in all batches share, and sets all heads
// accordingly. The order of the entries does not depend on the prefix.
func (m *Merging) share() {
	first := m.cursors[m.queue[0].cursor].key()
	common := len(first)
	for _, t := range m.queue {
		c := &m.cursors[t.cursor]
		common = commonLen(first[:common], c.key())
		common = commonLen(first[:common], c.lastKey())
	}
	common = max(common-headSlack, 0)
	m.shared = append(m.shared[:0], first[:common]...)
	for i := range m.queue {
		c := &m.cursors[m.queue[i].cursor]
		c.setHeads(common, m.flip)
		m.queue[i].head = c.heads[c.at]
	}
}

// rise moves the cursor at index i of the queue forward to its place. Those
// before i must be in order.
func (m *Merging) rise(i int) {
	t := m.queue[i]
	c := &m.cursors[t.cursor]
	for ; i > 0; i-- {
		p := m.queue[i-1]
		if p.head < t.head || p.head == t.head && !m.before(c, &m.cursors[p.cursor]) {
			break
		}
		m.queue[i] = p
	}
	m.queue[i] = t
}

// before compares the next entries of two cursors whose heads are equal.
func (m *Merging) before(a, b *cursor) bool {
	order := bytes.Compare(a.key(), b.key())
	if order == 0 {
		return (a.batch.Entries[a.at].Seq > b.batch.Entries[b.at].Seq) != m.reverse
	}
	return (order < 0) != m.reverse
}

func (m *Merging) fail(err error) {
	m.err, m.queue, m.spent = err, m.queue[:0], -1
}

// commonLen returns the length of the common prefix of a and b.
func commonLen(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for ; i+8 <= n; i += 8 {
		if x := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); x != 0 {
			return i + bits.TrailingZeros64(x)/8
		}
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}
