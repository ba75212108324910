package iter

import "github.com/stoatdb/stoat/internal/base"

// batch returns where the entry that r names lies.
func (m *Merging) batch(r ref) (b *Batch, place int) {
	return &m.cursors[r>>refShift].batch, int(r & placeMax)
}

// sees reports whether the snapshot includes a version.
func (s *Snapshot) sees(seq base.SeqNum) bool { return seq <= s.At || seq == PendingSeq }

// live reports whether a key's newest visible version shows a value.
func (v *Visible) live(key []byte, m *base.Meta, seq base.SeqNum) bool {
	if !m.Kind.HasValue() || seq <= v.snap.Since {
		return false
	}
	return m.ExpiresAt == 0 && v.merged.cover.by == nil || v.lasts(key, m, seq)
}

// lasts asks of an entry that may be gone whether it is.
func (v *Visible) lasts(key []byte, m *base.Meta, seq base.SeqNum) bool {
	if m.ExpiresAt != 0 && v.snap.Clock.NowMs() >= m.ExpiresAt {
		return false
	}
	return v.merged.cover.by == nil || !v.merged.cover.hides(key, seq)
}

// same reports whether two keys are equal. Neighbours mostly are not, and
// mostly differ in their last byte.
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
	at, last, n := v.snap.At, v.key, 0
	seen := v.last
	for _, r := range m.refs[:m.n] {
		b, i := m.batch(r)
		seq, key := b.Seqs[i], b.Keys[i]
		if seq > at && seq != PendingSeq || same(key, last) {
			continue
		}
		last, seen = key, r
		if v.live(key, &b.Metas[i], seq) {
			m.refs[n] = r
			n++
		}
	}
	v.last, v.n = seen, n
}

// filterBackward sees the versions of a key oldest first, so the last visible
// one before the key changes is the one, if it is live. The last key of the
// round may go on in the next one.
//
//	key  c  b  b  a  a  a        snapshot 6
//	seq  4  2  6  3  5  8
//	     ✓  -  ✓  -  ✓  -
func (v *Visible) filterBackward() {
	m := &v.merged
	last, n := v.key, 0
	for _, r := range m.refs[:m.n] {
		b, i := m.batch(r)
		seq, key := b.Seqs[i], b.Keys[i]
		if !v.snap.sees(seq) {
			continue
		}
		if v.shows && !same(key, last) {
			m.refs[n] = v.last // n is at most the place that r was at
			n++
		}
		last = key
		v.last = r
		v.shows = v.live(key, &b.Metas[i], seq)
	}
	v.n = n
}

// filterVersions keeps every version the snapshot includes.
func (v *Visible) filterVersions() {
	m := &v.merged
	n := 0
	for _, r := range m.refs[:m.n] {
		b, i := m.batch(r)
		if seq := b.Seqs[i]; v.snap.sees(seq) && seq > v.snap.Since {
			m.refs[n] = r
			n++
		}
	}
	v.n = n
}
