package iter

import "github.com/stoatdb/stoat/internal/base"

// batch returns the batch and the index of the entry that r refers to.
func (m *Merging) batch(r ref) (b *Batch, place int) {
	return &m.cursors[r>>refShift].batch, int(r & placeMax)
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
	if m.alone {
		v.filterPiece()
		return
	}
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

// filterPiece is filterForward for a round that is one piece of one batch, as
// every round is when one source is left. It walks the columns, and calls live
// only for entries that have an expiry or may be covered.
func (v *Visible) filterPiece() {
	m := &v.merged
	first := m.refs[0]
	b, from := m.batch(first)
	to := from + m.n
	keys, seqs, metas := b.Keys[from:to], b.Seqs[from:to], b.Metas[from:to]
	at, special := v.snap.At, v.snap.Since > 0 || m.cover.by != nil
	last, seen, n := v.key, v.last, 0
	for i, key := range keys {
		seq := seqs[i]
		if seq > at && seq != PendingSeq || same(key, last) {
			continue
		}
		last, seen = key, first+ref(i)
		meta := &metas[i]
		if (special || meta.ExpiresAt != 0 || !meta.Kind.HasValue()) && !v.live(key, meta, seq) {
			continue
		}
		m.refs[n] = seen
		n++
	}
	v.last, v.n = seen, n
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
		b, i := m.batch(r)
		seq, key := b.Seqs[i], b.Keys[i]
		if !v.snap.sees(seq) {
			continue
		}
		if v.shows && !same(key, last) && v.lasts() {
			m.refs[n] = v.last // safe: n is at most the index of r
			n++
			v.partials = v.partials || v.partial
		}
		last = key
		v.last = r
		meta := &b.Metas[i]
		v.shows = !special && meta.Kind.HasValue() || v.stands(key, meta, seq)
		v.expiresAt, v.pending = meta.ExpiresAt, seq == PendingSeq
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
		b, i := m.batch(r)
		if seq := b.Seqs[i]; v.snap.sees(seq) && seq > v.snap.Since {
			v.partials = v.partials || b.Metas[i].Kind.Partial()
			m.refs[n] = r
			n++
		}
	}
	v.n = n
}
