package iter

import (
	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/mutant"
)

// entry returns the entry that r refers to.
func (m *Merging) entry(r ref) *base.Entry {
	return &m.cursors[r>>refShift].batch.Entries[r&placeMax]
}

// sees reports whether the snapshot includes a version.
func (s *Snapshot) sees(seq base.SeqNum) bool { return seq <= s.At || seq == PendingSeq }

// live reports whether a version has a value that has not expired. It checks the
// time last, because the clock may have to make its answer durable.
func (v *Visible) live(key []byte, m *base.Meta, seq base.SeqNum) bool {
	return v.stands(key, m, seq) && (m.ExpiresAt == 0 || !v.snap.Clock.Expired(m.ExpiresAt, seq == PendingSeq))
}

// stands is live without the check of the time.
func (v *Visible) stands(key []byte, m *base.Meta, seq base.SeqNum) bool {
	if !m.Kind.HasValue() && !v.isPartial(m.Kind) || seq <= v.snap.Since {
		return false
	}
	return v.merged.cover.by == nil || !v.merged.cover.hides(key, seq)
}

// isPartial reports whether an entry of kind k, which has no value of its own, is partial,
// and notes that the round has one.
func (v *Visible) isPartial(k base.Kind) bool {
	if k.Partial() {
		v.partials = true
		return true
	}
	return false
}

// same reports whether two keys are equal. Most neighbours differ, and most of
// those in their last byte, so it compares that first.
func same(a, b []byte) bool {
	n := len(a)
	return n == len(b) && n > 0 && a[n-1] == b[n-1] && string(a) == string(b)
}

// filterForward keeps the first visible version of each key, which is its
// newest, if it is live.
//
//	key  a  a  a  b  b  c        snapshot 6
//	seq  8  5  3  6  2  4
//	     -  ✓  -  ✓  -  ✓
func (v *Visible) filterForward() {
	m := &v.merged
	at, special := v.snap.At, v.snap.Since > 0 || m.cover.by != nil
	last, seen, n := v.key, v.last, 0
	for _, r := range m.refs[:m.n] {
		e := m.entry(r)
		if e.Seq > at && e.Seq != PendingSeq || same(e.Key, last) {
			continue
		}
		last, seen = e.Key, r
		// Most entries are live without a question to the cover or the clock.
		if (special || e.Meta.ExpiresAt != 0 || !e.Meta.Kind.HasValue()) && !v.live(e.Key, &e.Meta, e.Seq) {
			continue
		}
		m.refs[n] = r
		n++
	}
	v.last, v.n = seen, n
}

// keepPiece keeps all entries of the round if it can do so without looking at each key. It
// is filterForward for one piece of a plain batch, as most rounds are when one source is
// left.
func (v *Visible) keepPiece() bool {
	m := &v.merged
	if !m.alone || m.reverse || v.snap.AllVersions || v.snap.Since > 0 || m.cover.by != nil {
		return false
	}
	b, from := &m.cursors[m.piece>>refShift].batch, int(m.piece&placeMax)
	if !b.Plain {
		return false
	}
	entries := b.Entries[from : from+m.n]
	for i := range entries {
		if entries[i].Seq > v.snap.At {
			return false
		}
	}
	if same(entries[0].Key, v.key) && !mutant.On(mutant.PlainRounds) {
		// The last round has shown a newer version.
		if entries = entries[1:]; len(entries) == 0 {
			return false
		}
	}
	v.piece, v.n, v.last = entries, len(entries), m.piece+ref(m.n-1)
	return true
}

// filterBackward meets the versions of a key oldest first. It keeps the last
// visible version before the key changes, if it is live. The versions of the
// round's last key may go on in the next round.
//
//	key  c  b  b  a  a  a        snapshot 6
//	seq  4  2  6  3  5  8
//	     ✓  -  ✓  -  ✓  -
func (v *Visible) filterBackward() {
	m := &v.merged
	special := v.snap.Since > 0 || m.cover.by != nil
	last, n := v.key, 0
	for _, r := range m.refs[:m.n] {
		e := m.entry(r)
		if !v.snap.sees(e.Seq) {
			continue
		}
		if v.shows && !same(e.Key, last) && v.lasts() {
			m.refs[n] = v.last // safe: n is at most the index of r
			n++
			v.partials = v.partials || v.partial
		}
		last = e.Key
		v.last = r
		meta := &e.Meta
		v.shows = !special && meta.Kind.HasValue() || v.stands(e.Key, meta, e.Seq)
		v.expiresAt, v.pending = meta.ExpiresAt, e.Seq == PendingSeq
		v.partial = meta.Kind.Partial()
	}
	v.n = n
}

// lasts reports whether the held-back version has not expired. Only the newest
// version of a key gets here, so older ones never ask the clock.
func (v *Visible) lasts() bool {
	return v.expiresAt == 0 || !v.snap.Clock.Expired(v.expiresAt, v.pending)
}

// filterVersions keeps every version that the snapshot includes.
func (v *Visible) filterVersions() {
	m := &v.merged
	n := 0
	for _, r := range m.refs[:m.n] {
		if e := m.entry(r); v.snap.sees(e.Seq) && e.Seq > v.snap.Since {
			v.partials = v.partials || e.Meta.Kind.Partial()
			m.refs[n] = r
			n++
		}
	}
	v.n = n
}
