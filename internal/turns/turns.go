// Package turns lets updates that lost the same keys to each other take turns.
//
// An update that met a conflict joins the line with a claim: the key, or the range of
// keys, that another commit wrote. It waits for the updates before it whose claims
// overlap its own. So updates that want the same key run one at a time, in the order in
// which they came.
//
// Turns only avoid conflicts. A commit validates what it read with or without them, so
// an update may give up waiting at any time. It does when the update before it takes
// too long. The slow update may wait for a lock of the program that the waiting update
// holds, or for an update within its own function.
package turns

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/lock"
)

const (
	// patienceMin is the least time for which others wait for the run of an update. An
	// update that has run before gets patiencePart times its longest run, up to
	// patienceMax.
	patienceMin  = 20 * time.Millisecond
	patiencePart = 2
	patienceMax  = time.Second
	// claimsMax is the number of claims that a place has. One more makes it claim
	// everything between them.
	claimsMax = 4
	// nearMax is the number of places before one with which it still looks often.
	nearMax = 16
	// lookMax is the number of places that Meets looks at, and that aheadLocked counts.
	lookMax = 64
)

// A Claim is the keys from Lo, inclusive, to Hi, exclusive. A nil Hi means no end.
type Claim struct{ Lo, Hi []byte }

// Clone returns a claim that shares no memory with c.
func (c Claim) Clone() Claim { return Claim{bytes.Clone(c.Lo), bytes.Clone(c.Hi)} }

// overlaps reports whether c and d have a key in common.
func (c Claim) overlaps(d Claim) bool {
	return (d.Hi == nil || bytes.Compare(c.Lo, d.Hi) < 0) && (c.Hi == nil || bytes.Compare(d.Lo, c.Hi) < 0)
}

// joined returns the least claim that has all keys of c and d.
func (c Claim) joined(d Claim) Claim {
	if bytes.Compare(d.Lo, c.Lo) < 0 {
		c.Lo = d.Lo
	}
	if c.Hi == nil || d.Hi == nil {
		c.Hi = nil
	} else if bytes.Compare(d.Hi, c.Hi) > 0 {
		c.Hi = d.Hi
	}
	return c
}

// A Line has the updates of one database that take turns. The zero Line is empty.
type Line struct {
	n  atomic.Int64 // the number of places; Meets asks it first
	mu lock.Mutex[lock.Turns]
	// places is in the order of joining. It and the places are guarded by mu.
	places []*Place
}

// A Place is where one update stands in a line. The zero Place is in no line.
type Place struct {
	line   *Line
	claims []Claim // immutable elements, which others may read without the lock
	// running says that the update has its turn, since began. longest is its longest run.
	running bool
	began   time.Time
	longest time.Duration
	waiters []*Place
	far     bool          // it waits behind many, so it must look when the one before it begins
	ready   chan struct{} // has an element when the update must look again whether it is its turn
}

// In reports whether the place is in the line.
func (p *Place) In() bool { return p.line != nil }

// Len returns the number of updates in the line.
func (l *Line) Len() int { return int(l.n.Load()) }

// Meets returns a claim in the line that reads intersect, if there is one.
func (l *Line) Meets(reads interface{ Intersects(lo, hi []byte) bool }) (Claim, bool) {
	if l.n.Load() == 0 {
		return Claim{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.places[:min(len(l.places), lookMax)] {
		for _, c := range p.claims {
			if reads.Intersects(c.Lo, c.Hi) {
				return c, true
			}
		}
	}
	return Claim{}, false
}

// Join adds a claim to a place, which keeps it. A place that is not in the line yet goes
// to its end. A turn that the place has ends.
func (l *Line) Join(p *Place, claim Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.restLocked()
	if len(p.claims) < claimsMax {
		p.claims = append(p.claims, claim)
	} else {
		all := claim
		for _, c := range p.claims {
			all = all.joined(c)
		}
		p.claims = []Claim{all}
	}
	if p.line == nil {
		p.line, p.ready = l, make(chan struct{}, 1)
		l.places = append(l.places, p)
		l.n.Store(int64(len(l.places)))
	}
}

// Wait waits for the turn of the place, and begins it. When ctx is done before, Wait
// returns its error. The close of stop ends the wait, too, with a turn.
func (p *Place) Wait(ctx context.Context, stop <-chan struct{}) error {
	before, left := p.look(nil)
	if before == nil {
		return nil
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	for {
		late := (*Place)(nil)
		select {
		case <-p.ready:
		case <-timer.C:
			late = before
		case <-stop:
			p.begin()
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if before, left = p.look(late); before == nil {
			return nil
		}
		timer.Reset(left)
	}
}

// look begins the turn of the place, or returns the place that it waits for and for how
// long. late is a place that it has waited for so long.
func (p *Place) look(late *Place) (before *Place, left time.Duration) {
	l := p.line
	l.mu.Lock()
	defer l.mu.Unlock()
	before, at := p.beforeLocked()
	if before != nil {
		left = before.leftLocked()
	}
	if before == nil || left <= 0 && before == late {
		p.beginLocked()
		return nil, 0
	}
	// All places ahead come first, so of thousands of places few look at the line at a time.
	p.far = false
	if !before.running && at > nearMax {
		if ahead := p.aheadLocked(at); ahead > nearMax {
			p.far, left = true, left+time.Duration(ahead-1)*patienceMin
		}
	}
	if !slices.Contains(before.waiters, p) {
		before.waiters = append(before.waiters, p)
	}
	return before, max(left, time.Millisecond)
}

// beforeLocked returns the place that p waits for: the last one before it that overlaps
// it, or one after it that runs. at is the index of p. The caller holds mu.
func (p *Place) beforeLocked() (before *Place, at int) {
	places := p.line.places
	at = slices.Index(places, p)
	for i := at - 1; i >= 0; i-- {
		if places[i].overlaps(p) {
			return places[i], at
		}
	}
	for _, o := range places[at+1:] {
		if o.running && o.overlaps(p) {
			return o, at
		}
	}
	return nil, at
}

// aheadLocked returns the number of places before p that overlap it, but lookMax at most. at is
// the index of p. The caller holds mu.
func (p *Place) aheadLocked(at int) (ahead int) {
	for i := at - 1; i >= 0 && ahead < lookMax; i-- {
		if p.line.places[i].overlaps(p) {
			ahead++
		}
	}
	return ahead
}

func (p *Place) overlaps(o *Place) bool {
	for _, c := range p.claims {
		for _, d := range o.claims {
			if c.overlaps(d) {
				return true
			}
		}
	}
	return false
}

// leftLocked returns for how long others wait for p at least. The caller holds mu.
func (p *Place) leftLocked() time.Duration {
	patience := min(max(patienceMin, patiencePart*p.longest), patienceMax)
	if !p.running {
		return patience
	}
	return patience - time.Since(p.began)
}

func (p *Place) begin() {
	p.line.mu.Lock()
	defer p.line.mu.Unlock()
	p.beginLocked()
}

func (p *Place) beginLocked() {
	p.running, p.began = true, time.Now()
	for _, w := range p.waiters {
		if w.far {
			w.lookAgain()
		}
	}
}

// restLocked ends the turn of p, and makes those that wait for p look again. The caller
// holds mu.
func (p *Place) restLocked() {
	if p.running {
		p.longest = max(p.longest, time.Since(p.began))
		p.running = false
	}
	for _, w := range p.waiters {
		w.lookAgain()
	}
	clear(p.waiters)
	p.waiters = p.waiters[:0]
}

// lookAgain makes the update of p look whether it is its turn.
func (p *Place) lookAgain() {
	select {
	case p.ready <- struct{}{}:
	default:
	}
}

// Leave ends the turn and takes the place out of the line. It keeps its claims.
func (p *Place) Leave() {
	l := p.line
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.places, p)
	l.places = slices.Delete(l.places, at, at+1)
	l.n.Store(int64(len(l.places)))
	p.restLocked()
	p.line = nil
}
