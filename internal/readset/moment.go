package readset

import (
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/stamp"
)

// A moment has the ranges that a transaction read at a timestamp. Their keys are
// encoded by package stamp. A later version of such a key is not part of what the
// transaction read.
type moment struct {
	at    uint64
	reads Set // with ranges only
}

// momentsMax is the number of timestamps that a set tells apart. A range at a further
// timestamp counts for all timestamps. That may cause a false conflict, and never
// hides one.
const momentsMax = 8

// AddRangeAt records a read of those versions in [lo, hi) whose timestamps are not
// after at.
func (r *Set) AddRangeAt(lo, hi []byte, at uint64) { r.readsAt(at).AddRange(lo, hi) }

// AddRangeThroughAt records a read of those versions in [lo, last] whose timestamps are
// not after at.
func (r *Set) AddRangeThroughAt(lo, last []byte, at uint64) {
	r.readsAt(at).AddRangeThrough(lo, last)
}

// readsAt returns the set that takes ranges at a timestamp.
func (r *Set) readsAt(at uint64) *Set {
	for i := range r.moments {
		if r.moments[i].at == at {
			return &r.moments[i].reads
		}
	}
	if len(r.moments) == momentsMax {
		return r
	}
	r.moments = append(r.moments, moment{at: at})
	return &r.moments[len(r.moments)-1].reads
}

// includes reports whether the encoded timestamp of a key is not after the moment.
func (m *moment) includes(key []byte) bool {
	at, ok := stamp.Of(key)
	if mutant.On(mutant.StampReadsPast) {
		return !ok || at < m.at
	}
	return !ok || at <= m.at
}

func (r *Set) momentCovers(key []byte) bool {
	for i := range r.moments {
		if m := &r.moments[i]; m.includes(key) && m.reads.covers(key) {
			return true
		}
	}
	return false
}

func (r *Set) momentsIntersect(lo, hi []byte) bool {
	if mutant.On(mutant.StampPurgeUnread) {
		return false
	}
	for i := range r.moments {
		if r.moments[i].reads.rangesIntersect(lo, hi) {
			return true
		}
	}
	return false
}

// Moments calls yield for the ranges that were read at each timestamp, until it
// returns false. includes tells which keys of these ranges were read. The ranges are
// as those of Ranges.
func (r *Set) Moments(yield func(ranges []Range, includes func(key []byte) bool) bool) {
	for i := range r.moments {
		m := &r.moments[i]
		if !yield(m.reads.Ranges(), m.includes) {
			return
		}
	}
}
