package compact

import (
	"bytes"
	"slices"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/stamp"
)

// An Outdated samples the discard points from which versions of a table can be dropped. A
// version that a newer one replaces can go from the timestamp of the newer one on. A
// deletion without a newer version can go from its own timestamp on.
type Outdated struct {
	points []uint64
	stride uint64 // one of stride versions is in points
	skip   uint64 // the number of versions to leave out before the next one
	group  []byte // what all versions of the last user's key begin with
	at     uint64 // the timestamp of the last version
}

// outdatedMax is the number of points in a sample. Further ones halve the sample.
const outdatedMax = 4096

// Begin starts a table.
func (o *Outdated) Begin() { *o = Outdated{points: o.points[:0], stride: 1, group: o.group[:0]} }

// Note takes the next entry of the table, whose keyspace has timestamps.
func (o *Outdated) Note(e *base.Entry) {
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
		o.add(newer)
	case e.Meta.Kind == base.KindStampDelete:
		o.add(max(at, 1))
	}
}

func (o *Outdated) add(point uint64) {
	if o.skip > 0 {
		o.skip--
		return
	}
	if len(o.points) == outdatedMax {
		for i := range o.points[:outdatedMax/2] {
			o.points[i] = o.points[2*i]
		}
		o.points, o.stride = o.points[:outdatedMax/2], 2*o.stride
	}
	o.points = append(o.points, point)
	o.skip = o.stride - 1
}

// Describe puts the points into t.
func (o *Outdated) Describe(t *manifest.Table) {
	slices.Sort(o.points)
	// at returns the point from which that many entries can be dropped.
	at := func(entries uint64) uint64 {
		if i := (max(entries, 1) - 1) / max(o.stride, 1); i < uint64(len(o.points)) {
			return o.points[i]
		}
		return 0
	}
	if t.TenthOutdated = at((t.Entries + 9) / 10); t.TenthOutdated != 0 {
		t.HalfOutdated = at((t.Entries + 1) / 2)
	}
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
