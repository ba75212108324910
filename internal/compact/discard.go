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
	// of the job, except for versions from After on.
	Settled uint64
	// Purged says that range tombstones outside of the job may hide versions of the job.
	Purged bool
	// After is a key after all keys of the job. If it is a version of the last user's key,
	// older versions of that key may exist outside of the job. It may be nil.
	After []byte
}

// A Raise is the last rise of the discard point of a keyspace. It is immutable. The rise made
// garbage of versions up to Last. Tables of the last level from number Next on hold none of
// it: a job has judged them.
//
// Tables have all commits up to some version, and all snapshots see them. Last is settled once it
// is not above that version. Jobs that run before keep some garbage. So once Last is settled,
// Next does not count until a merge begins, which sets Judged and a later Next.
type Raise struct {
	Keyspace uint32
	Lo, Hi   []byte // of the stored keys of the keyspace; Hi is exclusive
	Point    uint64 // the discard point
	Last     base.SeqNum
	Next     base.FileNum
	Judged   bool
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
	within  bool        // the current version is not the first one of that key
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
		d.group, d.within, d.holding = d.group[:0], false, false
		return false
	}
	group := stamp.KeyOf(key)
	if d.within = bytes.Equal(group, d.group); !d.within {
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
	if at > d.limits.Below || d.limits.Below == 0 || !d.rules.Bottom || e.Seq > d.rules.Snapshots[0] || mutant.On(mutant.KeepDiscarded) {
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
	return d.holding && bytes.HasPrefix(next, d.group)
}

// An Elsewhere tells of entries that are not in the inputs of a plan, but may be versions of
// a user's key of the inputs.
type Elsewhere struct {
	// First is the smallest sequence number of those entries. Versions in the tables of
	// After do not count.
	First base.SeqNum
	// Purged says that range tombstones in tables are among the entries. Those in memory
	// hide all versions in tables.
	Purged bool
	// After is where the first table begins that may go on with the last user's key. It is
	// nil if there is none.
	After []byte
}

// Elsewhere looks for entries that are not in the inputs of p. Those that are not in tables
// have sequence numbers from unflushed on.
//
// A table that begins after the end of the inputs can have versions of the last user's key
// only. They are older than those of the inputs. Were there such a version, all keys from
// the end of the inputs up to it would belong to that user's key. So After would, too.
func (p *Plan) Elsewhere(v *manifest.Version, unflushed base.SeqNum) Elsewhere {
	all := p.Tables()
	inputs := make(map[base.FileNum]bool, len(all))
	for _, t := range all {
		inputs[t.Num] = true
	}
	r := hull(all)
	// The last user's key may have older versions after the inputs.
	around := keyRange{lo: r.lo, hi: append(bytes.Clone(stamp.KeyOf(r.hi)), bytes.Repeat([]byte{0xff}, stamp.Size)...)}
	e := Elsewhere{First: unflushed}
	for t := range v.Tables() {
		if inputs[t.Num] || around.before(t) || around.after(t) {
			continue
		}
		e.Purged = e.Purged || t.RangeDeletions > 0
		switch {
		case !r.before(t):
			e.First = min(e.First, t.SmallestSeq)
		case e.After == nil || bytes.Compare(t.Smallest, e.After) < 0:
			e.After = t.Smallest
		}
	}
	return e
}
