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
	// Clock tells the time at which expiry is judged. It is asked only when
	// an entry has an expiry.
	Clock interface{ NowMs() uint64 }
	// AllVersions shows every visible version, deletions and expired ones
	// included, instead of the newest one if it is live.
	AllVersions bool
}

// Visible iterates over what a snapshot sees of merged sources. Its zero
// value is ready for Init, and can be used again after another Init.
//
// The entry it is at is in Entry: Key is valid until the next move, Value as
// long as the memory of its source.
type Visible struct {
	Entry base.Entry

	merged Merging
	snap   Snapshot
	valid  bool
	// last is the key whose versions have been dealt with; it may point into
	// the top cursor's batch until that is refilled.
	last    []byte
	hasLast bool
	keep    []byte // backs last and Entry.Key across a refill
}

// Init prepares v to iterate over inputs within [lower, upper), where nil is
// unbounded. Seek must be called before Next.
func (v *Visible) Init(inputs []Input, reverse bool, lower, upper []byte, snap Snapshot) {
	v.merged.Init(inputs, reverse, lower, upper)
	v.snap, v.valid, v.hasLast, v.last = snap, false, false, nil
	v.Entry = base.Entry{}
}

// Clear lets go of everything that v refers to, so that a pooled v keeps no
// memory alive but its own.
func (v *Visible) Clear() {
	for i := range v.merged.cursors {
		c := &v.merged.cursors[i]
		n := c.batch.Want
		c.source, c.batch = nil, Batch{Want: n}
	}
	v.merged.order = v.merged.order[:0]
	v.merged.lim = bounds{}
	v.snap, v.valid, v.last, v.Entry = Snapshot{}, false, nil, base.Entry{}
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
	v.hasLast = false
	m.seek(key)
	return v.find()
}

// Next moves to the next visible entry. It reports false at the end and on an
// error, and from then on.
func (v *Visible) Next() bool {
	if !v.valid {
		return false
	}
	return v.find()
}

func (v *Visible) find() bool {
	switch {
	case v.snap.AllVersions:
		v.valid = v.findVersion()
	case v.merged.reverse:
		v.valid = v.findBackward()
	default:
		v.valid = v.findForward()
	}
	return v.valid
}

// sees reports whether the snapshot includes a version.
func (v *Visible) sees(seq base.SeqNum) bool { return seq <= v.snap.At || seq == PendingSeq }

// live reports whether a key's newest visible version shows a value.
func (v *Visible) live(m *base.Meta, seq base.SeqNum) bool {
	if m.Kind != base.KindSet || seq <= v.snap.Since {
		return false
	}
	return m.ExpiresAt == 0 || v.snap.Clock.NowMs() < m.ExpiresAt
}

// findForward takes the first visible version of each key, which is its
// newest, and skips the others.
func (v *Visible) findForward() bool {
	for {
		c := v.merged.top()
		if c == nil {
			return false
		}
		i := c.at
		key, seq := c.batch.Keys[i], c.batch.Seqs[i]
		if !v.sees(seq) || (v.hasLast && bytes.Equal(key, v.last)) {
			v.step(c)
			continue
		}
		v.last, v.hasLast = key, true
		if !v.live(&c.batch.Metas[i], seq) {
			v.step(c)
			continue
		}
		v.Entry.Key, v.Entry.Value = key, c.batch.Vals[i]
		v.Entry.Seq, v.Entry.Meta = seq, c.batch.Metas[i]
		v.stepKeeping(c)
		return true
	}
}

// findBackward sees the versions of a key oldest first, so the last visible
// one before the key changes is the one.
func (v *Visible) findBackward() bool {
	for {
		c := v.merged.top()
		if c == nil {
			return false
		}
		best, found := base.Entry{}, false
		v.keep = append(v.keep[:0], c.key()...)
		for ; c != nil && bytes.Equal(c.key(), v.keep); c = v.merged.top() {
			if v.sees(c.seq()) {
				best, found = c.entry(), true
			}
			v.merged.advance(c)
		}
		if v.merged.err != nil {
			return false
		}
		if found && v.live(&best.Meta, best.Seq) {
			best.Key = v.keep
			v.Entry = best
			return true
		}
	}
}

// findVersion shows every version the snapshot includes.
func (v *Visible) findVersion() bool {
	for {
		c := v.merged.top()
		if c == nil {
			return false
		}
		if seq := c.seq(); v.sees(seq) && seq > v.snap.Since {
			v.Entry = c.entry()
			v.stepKeeping(c)
			return true
		}
		v.step(c)
	}
}

// step moves past the entry the top cursor is at.
func (v *Visible) step(c *cursor) {
	if c.at+1 >= c.batch.N && v.hasLast {
		v.keep = append(v.keep[:0], v.last...)
		v.last = v.keep
	}
	v.merged.advance(c)
}

// stepKeeping moves past the entry that is being shown. If that needs the
// next batch, the shown key is kept in memory of our own first.
func (v *Visible) stepKeeping(c *cursor) {
	if c.at+1 >= c.batch.N {
		v.keep = append(v.keep[:0], v.Entry.Key...)
		v.Entry.Key, v.last = v.keep, v.keep
	}
	v.merged.advance(c)
}
