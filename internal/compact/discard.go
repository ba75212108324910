package compact

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/keyspace"
	"github.com/stoatdb/stoat/internal/manifest"
	"github.com/stoatdb/stoat/internal/mutant"
	"github.com/stoatdb/stoat/internal/stamp"
)

// A Discard says what a job may drop of a keyspace with timestamps.
type Discard struct {
	// Timed says that the keyspace has timestamps. Otherwise the job drops nothing.
	Timed bool
	// Below is the discard point: no reader reads at a smaller timestamp.
	Below uint64
	// Settled is a timestamp below which no version of a key of the job exists outside
	// of the job.
	Settled uint64
	// Purged says that range tombstones outside of the job may hide versions of the job.
	Purged bool
}

// A discarder drops versions of keyspaces with timestamps that no reader can find. A
// version that Retain keeps is judged further, if all snapshots see it and if the job
// is at the bottom. Of each user's key, versions come with descending timestamps. With
// discard point 50:
//
//	a             b              c              d
//	a@70 SET *    .              c@60 SET *     .
//	a@50 SET *    b@40 DEL -     c@40 DEL *     d@40 SET *
//	a@30 SET -    b@30 SET -     c@30 SET *     d@30 DEL -
//	a@10 DEL -    b@20 SET -     c@20 SET -     .
//
// Readers at 50 find a@50, and nothing of b. c@30 is from a commit that a snapshot does
// not see. So it stays, and c@40 stays to hide it.
//
// A deletion is dropped only if no older version can be outside of the job, such as a
// late one in a memtable. Discard.Settled says so. The discarder holds the deletion
// until it has seen all older versions.
//
// A range tombstone outside of the job may hide a@50, but not a@30, which was written later. So
// where there are such tombstones, a version that was written after those that stay, stays too.
// A tombstone hides all versions of a user's key that were written before it.
type discarder struct {
	of     func(number uint32) Discard
	rules  *Rules
	walk   keyspace.Walk
	number uint32
	limits Discard // of the keyspace number

	group   []byte      // what all versions of the current user's key begin with
	hidden  bool        // a version up to the discard point was met
	first   []byte      // the key of that version
	newest  base.SeqNum // of the versions up to the discard point that were met and do not go
	held    base.Entry  // a deletion, if holding
	holding bool
}

// begin starts a stored key. It reports whether the key is a version of the same user's
// key as the held deletion. The output may not end before such a key.
func (d *discarder) begin(key []byte) (held bool) {
	number := uint32(0)
	if d.of != nil && len(key) > 0 && key[0] == keyspace.Escape {
		number = d.walk.Number(key)
	}
	if number != d.number {
		d.number, d.limits = number, Discard{}
		if number != 0 {
			d.limits = d.of(number)
		}
	}
	if !d.limits.Timed {
		d.group, d.holding = d.group[:0], false
		return false
	}
	if group := stamp.KeyOf(key); !bytes.Equal(group, d.group) {
		d.group = append(d.group[:0], group...)
		d.hidden, d.holding = mutant.On(mutant.StampDropNewest), false
		d.first = d.first[:0]
	}
	return d.holding
}

// judge decides about a version that Retain keeps. It may turn the version into a
// deletion.
func (d *discarder) judge(e *base.Entry) (drop bool) {
	if !d.limits.Timed || !e.Meta.Kind.HasValue() {
		return false
	}
	if at := e.Meta.ExpiresAt &^ stamp.ExpiryMark; at != 0 && at <= d.rules.NowMs {
		e.Value, e.Meta = nil, base.Meta{Kind: base.KindStampDelete}
	}
	at, _ := stamp.Of(e.Key)
	if at > d.limits.Below || d.limits.Below == 0 || !d.rules.Bottom || e.Seq > d.rules.Snapshots[0] {
		return false
	}
	if d.hidden {
		if d.limits.Purged && e.Seq > d.newest {
			d.newest = e.Seq
			return false
		}
		return d.holding || !bytes.Equal(e.Key, d.first)
	}
	d.hidden, d.first, d.newest = true, append(d.first[:0], e.Key...), e.Seq
	if e.Meta.Kind == base.KindStampDelete && (at <= d.limits.Settled || mutant.On(mutant.StampDropDeletion)) {
		d.holding = true
		d.held = *e
		d.held.Key = d.first
		return true
	}
	return false
}

// release returns the held deletion, if there is one, because an older version of the
// key stays.
func (d *discarder) release() (e *base.Entry, held bool) {
	held, d.holding = d.holding, false
	return &d.held, held
}

// straddles reports whether next, the first key after the job, is a version of the same
// user's key as the held deletion.
func (d *discarder) straddles(next []byte) bool {
	return d.holding && len(next) >= stamp.Size && bytes.Equal(stamp.KeyOf(next), d.group)
}

// FirstElsewhere looks at entries that are not in the inputs of p, but may be versions of a
// user's key of the inputs. It returns their smallest sequence number. Entries that are not
// in tables have sequence numbers from unflushed on. purged reports whether range tombstones
// in tables are among the entries. Those in memory hide all versions in tables.
func (p *Plan) FirstElsewhere(v *manifest.Version, unflushed base.SeqNum) (first base.SeqNum, purged bool) {
	inputs := make(map[base.FileNum]bool)
	var lo, end []byte
	bounded := true
	for _, tables := range p.Inputs {
		for _, t := range tables {
			inputs[t.Num] = true
			if lo == nil || bytes.Compare(t.Smallest, lo) < 0 {
				lo = t.Smallest
			}
			if bounded = bounded && t.Largest != nil; bytes.Compare(t.Largest, end) > 0 {
				end = t.Largest
			}
		}
	}
	// The last user's key may have older versions after the inputs.
	end = append(bytes.Clone(stamp.KeyOf(end)), bytes.Repeat([]byte{0xff}, stamp.Size)...)
	r := keyRange{lo: lo, hi: end}
	if !bounded {
		r.hi = nil
	}
	first = unflushed
	for _, tables := range v.Levels {
		for _, t := range tables {
			if !inputs[t.Num] && !r.before(t) && !r.after(t) {
				first = min(first, t.SmallestSeq)
				purged = purged || t.RangeDeletions > 0
			}
		}
	}
	return first, purged
}
