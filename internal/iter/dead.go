package iter

import (
	"bytes"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/gaps"
	"github.com/stoatdb/stoat/internal/mutant"
)

// Gaps are the ranges of keys without a live value that readers have found; see package
// gaps.
type Gaps interface {
	// Find returns the gap around key, and its widest range that holds for the
	// snapshot, or nil.
	Find(key []byte) (*gaps.Gap, *gaps.Step)
	// Add adds what the snapshot shows about a range; see gaps.Index.Add.
	Add(s gaps.Step, on *gaps.Gap)
}

// A Passer is a source that can pass many entries without decoding them.
type Passer interface {
	Source
	// Pass moves over entries up to the bound, in the direction of iteration: forward
	// over keys before it, backward over keys from it on. It moves over entries up to
	// version upTo only, and may stop early. Forward, a nil bound is the end of all
	// keys. The last entry of the last Fill lies before the bound.
	Pass(bound []byte, upTo base.SeqNum)
}

const (
	// addMin is how many dead entries a reader passes before it adds a gap.
	addMin = 32
	// growMin is how many dead entries behind a gap a reader passes before it enlarges the
	// gap. The next reader of a queue would pass them again.
	growMin = 8
)

// A deadRun describes the dead entries that a reader is passing: those of rounds without a
// visible entry. It covers the keys from start on, in the direction of iteration.
type deadRun struct {
	reverse bool
	// sought is the key of the seek that began the search, if seeking is set.
	sought  []byte
	seeking bool

	begun bool
	// start is where the run begins: forward the first key, backward the key after the
	// last one. Backward, open says that it is the end of all keys.
	start []byte
	open  bool
	// walked is how many entries the reader has passed since start or since a gap.
	// newest is the newest version among them, and among those of the gaps between
	// them. time is when the last of them expired.
	walked int
	newest base.SeqNum
	time   uint64
	// on is a gap at the beginning of the run, which the run may enlarge.
	on *gaps.Gap

	// gap is the one that the reader is in, or nil, and step its range. Once the reader
	// has passed entries because of it, older versions of these keys must stay hidden.
	// So gap stays until the reader leaves the range or seeks.
	gap  *gaps.Gap
	step gaps.Step
	// inside is how many entries of the range the reader has met. fresh says that some
	// are newer than the gap.
	inside int
	fresh  bool
	cover  gapCover

	end []byte // memory for the end of the run
}

// A gapCover is a Cover that also hides what lies in the gap of a run.
type gapCover struct {
	by  Cover // may be nil
	run *deadRun
}

// At implements Cover.
func (c *gapCover) At(key []byte) (seq base.SeqNum, until []byte) {
	if c.by != nil {
		seq, until = c.by.At(key)
	}
	r := c.run
	if r.gap == nil || !r.step.Contains(key) {
		return seq, until
	}
	seq = max(seq, r.gap.AsOf+1)
	if mutant.On(mutant.GapHidesLater) {
		seq = base.SeqNumMax
	}
	end := r.bound()
	if until == nil || end != nil && bytes.Compare(end, until) < 0 != r.reverse {
		until = end
	}
	return seq, until
}

// bound returns the end of the gap in the direction of iteration.
func (r *deadRun) bound() []byte {
	if r.reverse {
		return r.step.Lo
	}
	return r.step.Hi
}

// finish forgets the run. The next round without a visible entry begins another one.
func (r *deadRun) finish() {
	r.begun, r.seeking, r.sought, r.on = false, false, nil, nil
	r.walked, r.newest, r.time, r.inside, r.fresh = 0, 0, 0, 0, false
}

// clear drops all references to memory of others.
func (r *deadRun) clear() {
	r.finish()
	r.gap, r.step, r.cover = nil, gaps.Step{}, gapCover{}
}

// restart begins the run anew behind key: forward the first key is the one after it.
func (r *deadRun) restart(key []byte) {
	r.finish()
	r.start, r.open, r.begun = append(r.start[:0], key...), false, true
	if !r.reverse {
		r.start = append(r.start, 0)
	}
}

// begin begins the run at the seek or, after an entry, behind the first key of the round.
func (r *deadRun) begin(lim bounds, first []byte) {
	if !r.seeking {
		r.restart(first)
		return
	}
	from := r.sought
	if from == nil {
		if from = lim.lower; r.reverse {
			from = lim.upper
		}
	}
	r.start, r.open, r.begun = append(r.start[:0], from...), r.reverse && from == nil, true
}

// reaches reports whether the run begins before the gap or with it.
func (r *deadRun) reaches() bool {
	if r.reverse {
		return r.open || r.step.Hi != nil && bytes.Compare(r.start, r.step.Hi) >= 0
	}
	return bytes.Compare(r.start, r.step.Lo) <= 0
}

// passDead notes the dead entries of a round without a visible one. If it knows a gap
// around them, it moves over those that follow.
func (v *Visible) passDead(folded bool) {
	r, m := &v.dead, &v.merged
	if folded {
		// A gap says nothing about merged values, which depend on more than entries.
		v.keepLast()
		r.restart(v.key)
		return
	}
	if !r.begun {
		r.begin(m.lim, m.entry(m.refs[0]).Key)
	}
	v.noteRound()
	v.keepLast()
	if r.gap == nil && len(v.key) > 0 {
		if g, s := v.snap.Gaps.Find(v.key); g != nil {
			v.enterGap(g, s)
		}
	}
}

// enterGap moves over the entries of a gap around v.key.
func (v *Visible) enterGap(g *gaps.Gap, s *gaps.Step) {
	r, m := &v.dead, &v.merged
	r.gap, r.step, r.inside, r.fresh = g, *s, 0, r.newest > g.AsOf
	if r.on == nil && r.walked <= RoundMax {
		r.walked = 0 // most of them lie in the gap
		if g.Widest(s) && r.reaches() {
			r.on = g
		}
	}
	r.cover = gapCover{by: v.snap.Cover, run: r}
	m.cover.by = &r.cover
	m.cover.forget()
	if r.reverse && v.shows && v.carried.Seq <= g.AsOf {
		v.shows = false // the gap hides the version that was held back
	}
	m.passGap(r)
}

// noteRound adds the entries of the round to the run.
func (v *Visible) noteRound() {
	r, m := &v.dead, &v.merged
	// held is, backward, the version that decides about the key last so far.
	last, held := v.key, v.carried.Meta
	for _, ref := range m.refs[:m.n] {
		e := m.entry(ref)
		key, seq := e.Key, e.Seq
		if r.gap != nil && !r.step.Contains(key) {
			v.leaveGap()
		}
		if seq == PendingSeq {
			if !mutant.On(mutant.GapOfOwn) {
				r.restart(key)
			}
			continue
		}
		if seq > v.snap.At {
			continue
		}
		if r.gap != nil {
			r.inside++
			r.fresh = r.fresh || seq > r.gap.AsOf
		} else {
			r.walked++
		}
		r.newest = max(r.newest, seq)
		if !same(key, last) {
			decides := &e.Meta
			if r.reverse {
				decides = &held
			}
			if decides.Kind.HasValue() {
				r.time = max(r.time, decides.ExpiresAt)
			}
		}
		last, held = key, e.Meta
	}
	if v.snap.Cover != nil {
		r.newest = v.snap.At // range tombstones up to there may have hidden something
	}
}

// leaveGap notes that the reader has come to the end of the gap.
func (v *Visible) leaveGap() {
	r := &v.dead
	switch {
	case r.on == r.gap && r.inside < addMin && (!r.fresh || mutant.On(mutant.GapGrowsOver)):
		// The gap still holds, and the run enlarges it.
	case r.on != nil || r.walked+r.inside >= addMin:
		if r.on == r.gap {
			r.on = nil
		}
		r.absorb()
	case r.bound() == nil:
		r.finish() // there is nothing beyond
	default:
		r.restart(r.bound())
		if !r.reverse {
			r.start = r.start[:len(r.start)-1] // the bound is not in the gap
		}
	}
	r.gap = nil
	v.uncover()
}

// long reports whether the run is worth a gap, or a larger one.
func (r *deadRun) long() bool {
	return r.walked >= addMin || r.on != nil && r.walked >= growMin
}

// absorb makes the range of the gap a part of the run.
func (r *deadRun) absorb() {
	r.walked += r.inside
	r.newest, r.time = max(r.newest, r.step.From), max(r.time, r.step.Time)
}

// uncover takes the gap away from the range tombstones.
func (v *Visible) uncover() {
	v.merged.gap = nil
	v.merged.cover.by = v.snap.Cover
	v.merged.cover.forget()
}

// endRun ends the run, at a visible entry or at the end of the iteration. It adds a gap
// if the run is long.
func (v *Visible) endRun(ended bool) {
	r, lim := &v.dead, &v.merged.lim
	end, open := []byte(nil), false // where the run ends, in the direction of iteration
	if len(v.key) > 0 {
		r.end = append(append(r.end[:0], v.key...), 0)
		end = r.end
	}
	switch {
	case ended && r.gap != nil:
		v.leaveGap()
	case r.gap != nil:
		// The round may also have newer entries of the gap, dead or alive. A gap that the run
		// began on stays: its step knows what the reader passed there.
		if r.on == r.gap {
			r.on = nil
		}
		r.absorb()
	}
	if ended && !r.reverse {
		end, open = lim.upper, lim.upper == nil
	}
	if r.begun && r.long() && (open || r.reverse || end != nil) {
		s := gaps.Step{Lo: r.start, Hi: end, From: r.newest, Time: r.time}
		if r.reverse {
			if s.Lo, s.Hi = end, r.start; r.open {
				s.Hi = nil
			}
		}
		v.snap.Gaps.Add(s, r.on)
	}
	r.finish()
}

// passes reports whether the gap hides the next entry of c.
func (r *deadRun) passes(c *cursor) bool {
	return c.batch.Entries[c.at].Seq <= r.gap.AsOf && r.step.Contains(c.key())
}

// pass moves the source of c, whose batch is used up, over entries that the gap hides.
func (r *deadRun) pass(c *cursor) {
	if c.pending || c.ended || !r.step.Contains(c.lastKey()) {
		return
	}
	if p, ok := c.source.(Passer); ok {
		p.Pass(r.bound(), r.gap.AsOf)
	}
}
