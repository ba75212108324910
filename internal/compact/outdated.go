package compact

import (
	"bytes"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// An Outdated samples from when on entries of a table can be dropped: the times at which
// values expire, and discard points. A version that a newer one replaces can go from the
// timestamp of the newer one on. A deletion without a newer version can go from its own
// timestamp on.
type Outdated struct {
	expiries sample // times in Unix milliseconds
	points   sample // discard points
	group    []byte // what all versions of the last user's key begin with
	at       uint64 // the timestamp of the last version
}

// A sample is a part of the numbers that were added.
type sample struct {
	numbers []uint64
	stride  uint64 // one of stride numbers is in the sample
	skip    uint64 // how many numbers to leave out before the next one
}

// sampleMax is the number of numbers in a sample. Further ones halve the sample.
const sampleMax = 4096

// Begin starts a table.
func (o *Outdated) Begin() {
	*o = Outdated{expiries: o.expiries.empty(), points: o.points.empty(), group: o.group[:0]}
}

// clone returns a copy with its own memory.
func (o *Outdated) clone() *Outdated {
	c := *o
	c.expiries.numbers, c.points.numbers = slices.Clone(o.expiries.numbers), slices.Clone(o.points.numbers)
	return &c
}

// Note takes the next entry of the table. timed says that its keyspace has timestamps.
func (o *Outdated) Note(e *base.Entry, timed bool) {
	if at := e.Meta.ExpiresAt &^ stamp.ExpiryMark; at != 0 {
		o.expiries.add(at)
	}
	if !timed {
		return
	}
	at, ok := stamp.Of(e.Key)
	if !ok {
		return
	}
	newer, same := o.at, bytes.Equal(o.group, stamp.KeyOf(e.Key))
	if !same {
		o.group = append(o.group[:0], stamp.KeyOf(e.Key)...)
	}
	o.at = at
	switch {
	case same && newer == at || e.Meta.Kind == base.KindDelete: // an older entry of the same version, or a tombstone
	case same:
		o.points.add(newer)
	case e.Meta.Kind == base.KindStampDelete:
		o.points.add(max(at, 1))
	}
}

// empty returns a sample of nothing, with the memory of s.
func (s *sample) empty() sample { return sample{numbers: s.numbers[:0], stride: 1} }

func (s *sample) add(number uint64) {
	if s.skip > 0 {
		s.skip--
		return
	}
	if len(s.numbers) == sampleMax {
		for i := range s.numbers[:sampleMax/2] {
			s.numbers[i] = s.numbers[2*i]
		}
		s.numbers, s.stride = s.numbers[:sampleMax/2], 2*s.stride
	}
	s.numbers = append(s.numbers, number)
	s.skip = s.stride - 1
}

// parts returns two numbers. A tenth of all entries do not exceed the first, and a half do not
// exceed the second. They are 0 if fewer entries have a number.
func (s *sample) parts(entries uint64) (tenth, half uint64) {
	slices.Sort(s.numbers)
	// at returns the number that so many entries do not exceed.
	at := func(entries uint64) uint64 {
		if i := (max(entries, 1) - 1) / max(s.stride, 1); i < uint64(len(s.numbers)) {
			return s.numbers[i]
		}
		return 0
	}
	if tenth = at((entries + 9) / 10); tenth != 0 {
		half = at((entries + 1) / 2)
	}
	return tenth, half
}

// Describe puts the points and the times into t.
func (o *Outdated) Describe(t *manifest.Table) {
	t.TenthOutdated, t.HalfOutdated = o.points.parts(t.Entries)
	t.TenthExpired, t.HalfExpired = o.expiries.parts(t.Entries)
}

// outdatedPart returns the fraction of t that the discard points of its keyspaces have
// made garbage, rounded down to 0, a tenth or a half.
func (s Shape) outdatedPart(t *manifest.Table, level int) float64 {
	if t.TenthOutdated == 0 || s.DiscardPoint == nil || t.LargestSeq > s.OldestSnapshot || !s.Discardable(t, level) {
		return 0
	}
	switch point := s.DiscardPoint(t); {
	case t.HalfOutdated != 0 && point >= t.HalfOutdated:
		return 0.5
	case point >= t.TenthOutdated:
		return 0.1
	}
	return 0
}
