package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
)

// A Snapshot says which entries a reader may see.
type Snapshot struct {
	// At is the newest visible sequence number.
	At base.SeqNum
	// Since hides versions up to and including it.
	Since base.SeqNum
	// Clock tells whether an entry has expired. Visible calls it only for
	// entries with an expiry that it would show otherwise. pending marks the
	// reader's own writes.
	Clock interface {
		Expired(at uint64, pending bool) bool
	}
	// Ends, if not nil, can end the iteration early: Visible calls Ended between
	// rounds and stops with its error, unless it is nil. One call of Next may
	// skip many hidden entries.
	Ends interface{ Ended() error }
	// AllVersions shows every visible version instead of the newest live one.
	// This includes deletions, and versions that are expired or covered.
	AllVersions bool
	// Values says that the reader looks at values. Visible then loads values into the
	// processor's cache together: the first ones after a seek, and all while it merges
	// many sources. The processor prefetches later ones of a few sources itself.
	Values bool
	// Fold makes a whole entry of the partial version e of a key, and reports false if
	// that is a deletion. If it is nil, partial entries are shown as they are.
	Fold interface {
		Fold(e *base.Entry) (ok bool, err error)
	}
	// Cover tells which versions range tombstones hide; nil if there are none.
	Cover Cover
	// Gaps are ranges without live keys, which Visible uses and adds to. It is nil if
	// the reader may not: with AllVersions or Since, or if it has deleted ranges itself.
	Gaps Gaps
}

// Visible iterates over the entries of merged sources that a snapshot sees. Its
// zero value is ready for Init, and another Init makes it reusable.
//
// Entry is the current entry. It and its Key are valid until the next move, its Value as
// long as the memory of its source. The caller does not change it. It is nil before Init.
type Visible struct {
	Entry *base.Entry

	valid bool
	round uint64 // counts the rounds
	at, n int    // merged.refs[at:n] are the visible entries after the current one
	// piece are the entries of a round that keepPiece kept, in place of the refs.
	piece  []base.Entry
	merged Merging
	snap   Snapshot

	// State that one round leaves to the next: the last key that it processed.
	// last refers to it while the round lasts; keepLast then copies it to key.
	last ref
	key  []byte
	// Backward, carried is the whole entry: older versions come first, and the
	// next round may hold a newer one.
	carried base.Entry
	// shows says that the last entry is visible, unless a newer version follows
	// or it has expired.
	shows     bool
	expiresAt uint64
	pending   bool
	partial   bool
	// partials says that the round may show partial entries.
	partials bool

	dead deadRun

	// passed counts the entries of earlier rounds since the last seek. usual are the
	// lengths of the last two iterations. They survive Init, see want.
	passed int
	usual  [2]int

	// cold is the number of remaining rounds whose values touchValues loads in any case.
	// touched has no meaning; it keeps the compiler from removing the loads.
	cold    int
	touched uint64
}

// carriedRef stands for v.carried in place of a ref.
const carriedRef = ^ref(0)

// Init prepares v to iterate over inputs within [lower, upper), where nil means
// unbounded. The caller must call Seek before Next.
func (v *Visible) Init(inputs []Input, reverse bool, lower, upper []byte, snap Snapshot) {
	cover := snap.Cover
	if snap.AllVersions {
		cover = nil // AllVersions shows covered versions, as it shows deletions
	}
	v.merged.Init(inputs, reverse, lower, upper, cover)
	if v.merged.decides = snap.At; reverse || snap.AllVersions {
		v.merged.decides = 0
	}
	v.snap, v.valid, v.at, v.n, v.piece, v.cold = snap, false, 0, 0, nil, 0
	v.Entry = &v.carried
	v.dead.finish()
	v.dead.gap, v.dead.reverse = nil, reverse
	v.begin()
}

// Within changes the bounds of Init. The caller must call Seek next.
func (v *Visible) Within(lower, upper []byte) { v.merged.lim = bounds{lower, upper} }

// Together makes g position the grouped inputs, until the next Init.
func (v *Visible) Together(g Group) { v.merged.group = g }

// begin drops the state of earlier rounds.
func (v *Visible) begin() {
	v.last, v.shows, v.key, v.partials = carriedRef, false, v.key[:0], false
	v.carried = base.Entry{}
}

// Clear drops all references to memory of others, so that a pooled v keeps only
// its own memory alive.
func (v *Visible) Clear() {
	v.noteLength()
	m := &v.merged
	for i := range m.cursors {
		m.cursors[i].clear()
	}
	m.group, m.left, m.spent, m.n = nil, 0, false, 0
	m.lim, m.cover, m.gap = bounds{}, fragment{}, nil
	v.snap, v.valid, v.at, v.n, v.piece, v.Entry = Snapshot{}, false, 0, 0, nil, &v.carried
	v.dead.clear()
	v.begin()
}

// noteLength notes how many entries the iteration since the last seek has shown. The
// end counts as one, because a reader that reaches it has looked for another entry.
func (v *Visible) noteLength() {
	n := v.passed + v.at
	if n == 0 {
		return
	}
	if !v.valid {
		n++
	}
	v.usual = [2]int{n, v.usual[0]}
	v.passed = 0
}

// want returns how many entries a reader will probably read after a seek. It is the lesser
// of the last two lengths, so one long iteration among short ones makes no difference.
func (v *Visible) want() int {
	n := min(v.usual[0], v.usual[1])
	if n == 0 {
		return firstWant
	}
	return n
}

// Valid reports whether v is at an entry.
func (v *Visible) Valid() bool { return v.valid }

// Err returns the error that ended the iteration, or nil.
func (v *Visible) Err() error { return v.merged.err }

// Seek moves to the first visible entry in the direction of iteration: forward
// with a key >= key, backward with a key < key. A nil key means the beginning in
// that direction. The bounds apply in any case.
func (v *Visible) Seek(key []byte) bool {
	m := &v.merged
	if m.reverse {
		if m.lim.upper != nil && (key == nil || bytes.Compare(key, m.lim.upper) > 0) {
			key = m.lim.upper
		}
	} else if m.lim.lower != nil && (key == nil || bytes.Compare(key, m.lim.lower) < 0) {
		key = m.lim.lower
	}
	v.noteLength()
	v.valid = false // a panic in a source must leave v invalid
	if v.dead.gap != nil {
		v.dead.gap = nil
		v.uncover()
	}
	m.seek(key, v.want())
	v.begin()
	v.dead.finish()
	v.dead.sought, v.dead.seeking = key, true
	if v.snap.Values {
		v.cold = coldRounds
	}
	return v.find()
}

// Next moves to the next visible entry. At the end and on an error it reports
// false, and from then on.
func (v *Visible) Next() bool {
	if v.at < v.n {
		v.Step()
		return true
	}
	return v.valid && v.find()
}

// Step is Next when Left is not 0. It is inlined.
func (v *Visible) Step() {
	if v.at < len(v.piece) {
		v.Entry = &v.piece[v.at]
		v.at++
		return
	}
	v.show()
}

// Left returns how many entries the round has after the current one. Next moves
// to them without reading a source.
func (v *Visible) Left() int { return v.n - v.at }

// find processes rounds until one has a visible entry.
func (v *Visible) find() bool {
	// The memory of the current entry may be gone before the next one is found.
	// A panic in a source must leave v invalid.
	v.passed += v.at
	v.at, v.n, v.piece, v.valid = 0, 0, nil, false
	v.round++
	for v.n == 0 {
		v.keepLast()
		if v.dead.gap != nil && len(v.key) > 0 && !v.dead.step.Contains(v.key) {
			v.dead.gap = nil
			v.uncover()
		}
		if v.snap.Ends != nil {
			if err := v.snap.Ends.Ended(); err != nil {
				v.merged.fail(err)
				return false
			}
		}
		if !v.merged.next() {
			return v.end()
		}
		if v.keepPiece() {
			break
		}
		if v.merged.alone {
			v.merged.list()
		}
		switch {
		case v.snap.AllVersions:
			v.filterVersions()
		case v.merged.reverse:
			v.filterBackward()
		default:
			v.filterForward()
		}
		folded := v.partials
		if folded && !v.fold() {
			return false
		}
		if v.n == 0 && v.snap.Gaps != nil {
			v.passDead(folded)
		}
	}
	v.valid = true
	if v.dead.begun {
		v.endRun(false)
	}
	v.dead.seeking, v.dead.sought = false, nil
	if v.snap.Values && (v.cold > 0 || !v.merged.alone && len(v.merged.cursors) >= crowd) {
		v.touchValues()
	}
	v.cold = max(v.cold-1, 0)
	v.Step()
	return true
}

// end is find at the end of all entries.
func (v *Visible) end() bool {
	shown := v.showCarried()
	if v.dead.begun && v.merged.err == nil {
		v.endRun(!shown)
	}
	return shown
}

// showCarried makes the very last entry, going backward, the current one.
func (v *Visible) showCarried() bool {
	if !v.merged.reverse || v.merged.err != nil || !v.shows || !v.lasts() {
		return false
	}
	v.shows = false
	if v.partial && v.snap.Fold != nil {
		ok, err := v.snap.Fold.Fold(&v.carried)
		if err != nil {
			v.merged.fail(err)
		}
		if !ok || err != nil {
			return false
		}
	}
	v.Entry, v.valid = &v.carried, true
	return true
}

// fold makes whole entries of the partial ones of the round, in the batches. It leaves
// out those that are deletions, except with AllVersions. It reports false after an
// error.
func (v *Visible) fold() bool {
	v.partials = false
	if v.snap.Fold == nil {
		return true
	}
	n := 0
	for _, r := range v.merged.refs[:v.n] {
		if at := v.entry(r); at.Meta.Kind.Partial() {
			e := *at
			ok, err := v.snap.Fold.Fold(&e)
			if err != nil {
				v.merged.fail(err)
				v.n = 0
				return false
			}
			if !ok && !v.snap.AllVersions {
				continue
			}
			at.Value, at.Meta = e.Value, e.Meta
		}
		v.merged.refs[n] = r
		n++
	}
	v.n = n
	return true
}

const (
	// coldRounds is the number of rounds after a seek whose values touchValues loads in
	// any case. Then the processor prefetches the values of a few sources itself.
	coldRounds = 3
	// crowd is a number of sources from which the processor does not prefetch.
	// touchValues loads their values in all rounds that merge them.
	crowd = 8
)

// touchValues loads both ends of all values of the round. These loads do not
// depend on each other, so their cache misses overlap.
func (v *Visible) touchValues() {
	touched := v.touched
	for i := v.at; i < v.n; i++ {
		if value := v.InRound(i).Value; len(value) > 0 {
			touched += uint64(value[0]) + uint64(value[len(value)-1])
		}
	}
	v.touched = touched
}

// show makes the next ref of the round the current entry.
func (v *Visible) show() {
	v.Entry = v.entry(v.merged.refs[v.at])
	v.at++
}

// entry returns the entry that r refers to.
func (v *Visible) entry(r ref) *base.Entry {
	if r == carriedRef {
		return &v.carried
	}
	return v.merged.entry(r)
}

// Round describes the current round. A round has up to RoundMax entries; this
// one has n. The current entry is number at, or -1 if it is the very last and
// belongs to no round. Each round of v has a different id.
func (v *Visible) Round() (id uint64, at, n int) { return v.round, v.at - 1, v.n }

// InRound returns entry i of the round: the current one or a later one.
func (v *Visible) InRound(i int) *base.Entry {
	if i < len(v.piece) {
		return &v.piece[i]
	}
	return v.entry(v.merged.refs[i])
}

// keepLast copies what the next round needs from this one, before the next round
// overwrites it.
func (v *Visible) keepLast() {
	if v.last == carriedRef {
		return
	}
	v.carried = *v.merged.entry(v.last)
	v.key = append(v.key[:0], v.carried.Key...)
	v.carried.Key = v.key
	v.last = carriedRef
}
