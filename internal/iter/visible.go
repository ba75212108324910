package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A Snapshot is what a reader may see.
type Snapshot struct {
	// At is the newest visible sequence number.
	At base.SeqNum
	// Since hides versions up to and including it.
	Since base.SeqNum
	// Clock tells whether something has expired. It is asked of an entry that
	// would be shown, and has an expiry; pending says that the entry is a write
	// of the reader's own.
	Clock interface {
		Expired(at uint64, pending bool) bool
	}
	// Ends, if it is not nil, is asked between rounds why the iteration is to end
	// before its time; it answers nil as long as it is not to. What is hidden may
	// be much, and is passed over in one call.
	Ends interface{ Ended() error }
	// AllVersions shows every visible version, deletions, expired and covered
	// ones included, instead of the newest one if it is live.
	AllVersions bool
	// Values says that the reader looks at values. Those that come first after
	// a seek are brought into the cache together; the processor itself guesses
	// the ones after that.
	Values bool
	// Cover tells what range deletions hide; nil if there are none.
	Cover Cover
}

// Visible iterates over what a snapshot sees of merged sources. Its zero
// value is ready for Init, and can be used again after another Init.
//
// The entry it is at is in Entry: Key is valid until the next move, Value as
// long as the memory of its source.
type Visible struct {
	Entry base.Entry

	valid  bool
	round  uint64 // counts the rounds
	at, n  int    // merged.refs[at:n] are the visible entries after this one
	merged Merging
	snap   Snapshot

	// What a round leaves to the next one: the last key that was dealt with,
	// as a ref until the round is over, then in memory of our own.
	last ref
	key  []byte
	// Backward the entry itself is left, as older versions come first and
	// the next round may have a newer one.
	carried base.Entry
	// The last entry is to be shown unless a newer version comes, or it has
	// expired.
	shows     bool
	expiresAt uint64
	pending   bool

	// cold is how many rounds are left whose values are to be touched; touched
	// has no meaning, it makes the loads happen.
	cold    int
	touched uint64
}

// carriedRef is the ref of what earlier rounds have left, if anything.
const carriedRef = ^ref(0)

// Init prepares v to iterate over inputs within [lower, upper), where nil is
// unbounded. Seek must be called before Next.
func (v *Visible) Init(inputs []Input, reverse bool, lower, upper []byte, snap Snapshot) {
	cover := snap.Cover
	if snap.AllVersions {
		cover = nil // covered versions are shown as deleted ones are
	}
	v.merged.Init(inputs, reverse, lower, upper, cover)
	v.snap, v.valid, v.at, v.n, v.cold = snap, false, 0, 0, 0
	v.Entry = base.Entry{}
	v.begin()
}

// Together makes v position the inputs that are grouped through g, up to the
// next Init.
func (v *Visible) Together(g Group) { v.merged.group = g }

// begin forgets what earlier rounds have left.
func (v *Visible) begin() {
	v.last, v.shows, v.key = carriedRef, false, v.key[:0]
	v.carried = base.Entry{}
}

// Clear lets go of everything that v refers to, so that a pooled v keeps no
// memory alive but its own.
func (v *Visible) Clear() {
	m := &v.merged
	for i := range m.cursors {
		m.cursors[i].clear()
	}
	m.group, m.queue, m.spent, m.n = nil, m.queue[:0], -1, 0
	m.lim, m.cover = bounds{}, fragment{}
	v.snap, v.valid, v.at, v.n, v.Entry = Snapshot{}, false, 0, 0, base.Entry{}
	v.begin()
}

// Valid reports whether v is at an entry.
func (v *Visible) Valid() bool { return v.valid }

// Err returns the error that ended the iteration, if one did.
func (v *Visible) Err() error { return v.merged.err }

// Seek moves to the first visible entry in the direction of iteration:
// forward with a key >= key, backward with a key < key. nil means from the
// beginning of the direction. The bounds hold in any case.
func (v *Visible) Seek(key []byte) bool {
	m := &v.merged
	if m.reverse {
		if m.lim.upper != nil && (key == nil || bytes.Compare(key, m.lim.upper) > 0) {
			key = m.lim.upper
		}
	} else if m.lim.lower != nil && (key == nil || bytes.Compare(key, m.lim.lower) < 0) {
		key = m.lim.lower
	}
	v.valid = false // a fault in a source ends this in the middle
	m.seek(key)
	v.begin()
	if v.snap.Values {
		v.cold = coldRounds
	}
	return v.find()
}

// Next moves to the next visible entry. It reports false at the end and on an
// error, and from then on.
func (v *Visible) Next() bool {
	if v.at < v.n {
		v.show()
		return true
	}
	return v.valid && v.find()
}

// Left returns how many of the round's entries come after this one. Next goes
// on to them without a look at any source.
func (v *Visible) Left() int { return v.n - v.at }

// find goes through rounds until one has something to show.
func (v *Visible) find() bool {
	// What it is at may be gone before there is something else: a fault in a
	// source ends this in the middle.
	v.at, v.n, v.valid = 0, 0, false
	v.round++
	for v.n == 0 {
		v.keepLast()
		if v.snap.Ends != nil {
			if err := v.snap.Ends.Ended(); err != nil {
				v.merged.fail(err)
				return false
			}
		}
		if !v.merged.next() {
			v.valid = v.merged.reverse && v.merged.err == nil && v.shows && v.lasts()
			if v.valid {
				v.Entry, v.shows = v.carried, false
			}
			return v.valid
		}
		switch {
		case v.snap.AllVersions:
			v.filterVersions()
		case v.merged.reverse:
			v.filterBackward()
		default:
			v.filterForward()
		}
	}
	v.valid = true
	if v.cold > 0 {
		v.cold--
		v.touchValues()
	}
	v.show()
	return true
}

// coldRounds is in how many rounds after a seek values are touched.
const coldRounds = 3

// touchValues loads both ends of all values of the round, none of which waits
// for another one.
func (v *Visible) touchValues() {
	touched := v.touched
	for _, r := range v.merged.refs[v.at:v.n] {
		if r == carriedRef {
			continue
		}
		b, i := v.merged.batch(r)
		if value := b.Vals[i]; len(value) > 0 {
			touched += uint64(value[0]) + uint64(value[len(value)-1])
		}
	}
	v.touched = touched
}

// show makes the next ref of the round the entry that v is at.
func (v *Visible) show() {
	r := v.merged.refs[v.at]
	v.at++
	if r == carriedRef {
		v.Entry = v.carried
		return
	}
	b, i := v.merged.batch(r)
	e := &v.Entry
	e.Key, e.Value, e.Seq, e.Meta = b.Keys[i], b.Vals[i], b.Seqs[i], b.Metas[i]
}

// Round tells where in its round v is. Entries are found in rounds of up to
// RoundMax; this one has n of them, of which the entry that v is at is number
// at, or -1 if it is the last of all and of no round. No two rounds of one v
// have the same id.
func (v *Visible) Round() (id uint64, at, n int) { return v.round, v.at - 1, v.n }

// RoundMax is how many entries a round has at most.
const RoundMax = roundMax

// InRound returns the entry of the round with the given number; the one that
// v is at, or a later one.
func (v *Visible) InRound(i int) (key, value []byte, m *base.Meta) {
	r := v.merged.refs[i]
	if r == carriedRef {
		return v.carried.Key, v.carried.Value, &v.carried.Meta
	}
	b, i := v.merged.batch(r)
	return b.Keys[i], b.Vals[i], &b.Metas[i]
}

// keepLast copies what the next round needs of this one, which is about to
// be overwritten.
func (v *Visible) keepLast() {
	if v.last == carriedRef {
		return
	}
	b, i := v.merged.batch(v.last)
	v.key = append(v.key[:0], b.Keys[i]...)
	v.carried = base.Entry{Key: v.key, Value: b.Vals[i], Seq: b.Seqs[i], Meta: b.Metas[i]}
	v.last = carriedRef
}
