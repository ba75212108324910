package stoat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

// A schedule lets several actors use one database as if at the same time,
// while exactly one of them runs at any moment: each runs until it comes to a
// point and waits there for its next turn. Who gets it is chosen by a function,
// from a seed or from a list of all choices, and nothing else is left to chance.
//
// It is the driver of the database: besides the points of the actors' own, which
// lie between their calls, there are those inside commits, flushes, compactions
// and collections.
type schedule struct {
	choose func(able []*actor) *actor
	// blocked reports whether the actor cannot go on from where it is before
	// another one has: it would wait for a lock or for a flush.
	blocked func(a *actor) bool
	// skipped has the points at which nobody stops unless he must.
	skipped map[point]bool
	// applied is called at pointApplied by who has come there.
	applied func(a *actor)

	actors  []*actor
	running *actor
	parked  chan struct{}
	patient *time.Timer
	fault   error // what nobody could return
	// abandoned lets everybody run to the end at once, and nobody believes
	// what they see.
	abandoned atomic.Bool
	hangs     bool     // somebody does not give the turn back
	story     []string // who got each turn, and where that led to
}

// An actor is a goroutine that runs when it has the turn.
type actor struct {
	name  string
	act   func(a *actor) error
	at    point
	turn  chan struct{}
	haste int // see byHaste
	err   error

	s    *schedule
	pend *pendingCommit // what it is committing
}

// Points of the actors' own.
const (
	pointIdle    point = 100 + iota // before its next deed
	pointBetween                    // between two calls of one deed
	pointEnd                        // its goroutine has ended
)

var pointNames = map[point]string{
	pointPicked: "picked", pointCreate: "create", pointInstall: "install", pointEdited: "edited",
	pointReplaced: "replaced", pointDiscarded: "discarded", pointApplied: "applied", pointCopy: "copy", pointLoaded: "loaded", pointStated: "stated",
	pointIdle: "idle", pointBetween: "between", pointEnd: "end",
}

// errAbandoned ends an actor whose database nobody looks at any more.
var errAbandoned = errors.New("the schedule was abandoned")

// turnPatience is how long a turn may take before it counts as a deadlock. Some
// open many databases, beside whatever else the machine does.
const turnPatience = time.Minute

func newSchedule(choose func(able []*actor) *actor) *schedule {
	return &schedule{choose: choose, parked: make(chan struct{}), patient: time.NewTimer(turnPatience)}
}

// add gives the schedule another actor. act calls a.stop where others may come
// in between.
func (s *schedule) add(name string, act func(a *actor) error) {
	a := &actor{name: name, act: act, at: pointIdle, turn: make(chan struct{}), s: s}
	s.actors = append(s.actors, a)
	go func() {
		<-a.turn
		if !s.abandoned.Load() {
			a.err = panicsAsErrors(func() error { return a.act(a) })
		}
		a.at = pointEnd
		s.parked <- struct{}{}
	}()
}

// at stops the running actor at a point of the database.
func (s *schedule) at(p point) {
	a := s.running
	if a == nil || s.abandoned.Load() {
		return // the thread that sets the scene
	}
	if p == pointApplied && s.applied != nil {
		s.applied(a)
	}
	if a.at = p; !s.skipped[p] || s.blocked(a) {
		a.park(p)
	}
}

// stop is a point of the actor's own. It returns an error when the actor is to
// end without a further look at what the schedule knows.
func (a *actor) stop(p point) error {
	a.park(p)
	return a.gone()
}

func (a *actor) gone() error {
	if a.s.abandoned.Load() {
		return errAbandoned
	}
	return nil
}

func (a *actor) park(p point) {
	if a.s.abandoned.Load() {
		return
	}
	a.at, a.haste = p, 0
	a.s.parked <- struct{}{}
	<-a.turn
}

// next gives one of the actors a turn that may have one by ready, and reports
// false if there is none.
func (s *schedule) next(ready func(a *actor) bool) (bool, error) {
	var able []*actor
	for _, a := range s.actors {
		if a.at != pointEnd && ready(a) && !s.blocked(a) {
			able = append(able, a)
		}
	}
	if len(able) == 0 {
		return false, nil
	}
	a := s.choose(able)
	s.running = a
	a.turn <- struct{}{}
	s.patient.Reset(turnPatience)
	select {
	case <-s.parked:
	case <-s.patient.C:
		s.hangs = true
		stacks := make([]byte, 64<<10)
		return false, fmt.Errorf("%s hangs after %s:\n%s", a.name, pointNames[a.at], stacks[:runtime.Stack(stacks, true)])
	}
	s.running = nil
	s.story = append(s.story, a.name+":"+pointNames[a.at])
	if err := errors.Join(a.err, s.fault); err != nil {
		return false, fmt.Errorf("%s: %w", a.name, err)
	}
	return true, nil
}

// byHaste chooses actors at random. How soon one of them goes on from a point is
// drawn when he comes there, and some rest for a hundred times as long as
// others: what goes wrong when somebody rests at a bad place, while the others
// do much, would not show where all are equally fast.
func byHaste(rng *rand.Rand) func(able []*actor) *actor {
	return func(able []*actor) *actor {
		total := 0
		for _, a := range able {
			if a.haste == 0 || rng.IntN(60) == 0 {
				a.haste = 1 << (2 * rng.IntN(5))
			}
			total += a.haste
		}
		n := rng.IntN(total)
		for _, a := range able {
			if n -= a.haste; n < 0 {
				return a
			}
		}
		panic("unreachable")
	}
}

// finish gives turns until every actor is idle or has ended.
func (s *schedule) finish() error {
	busy := func(a *actor) bool { return a.at != pointIdle }
	for {
		did, err := s.next(busy)
		if err != nil {
			return err
		}
		if !did {
			break
		}
	}
	for _, a := range s.actors {
		if a.at != pointIdle && a.at != pointEnd {
			return fmt.Errorf("%s is stuck at %s", a.name, pointNames[a.at])
		}
	}
	return nil
}

// abandon ends all actors. Those that are in the middle of something run to
// its end at the same time, as in any database. Whoever hangs is left to do so, and
// the others with him.
func (s *schedule) abandon() {
	s.abandoned.Store(true)
	if s.hangs {
		return
	}
	left := 0
	for _, a := range s.actors {
		if a.at != pointEnd {
			left++
			close(a.turn)
		}
	}
	for range left {
		<-s.parked
	}
	s.actors = nil
}

// String tells what happened.
func (s *schedule) String() string { return strings.Join(s.story, " ") }

// panicsAsErrors runs do, and returns what it panics with as an error.
func panicsAsErrors(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			stack := make([]byte, 16<<10)
			err = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	return do()
}
