package schedules

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
)

// A schedule lets several actors use one database as if at the same time, while
// exactly one of them runs at any moment. Each actor runs until it reaches a point,
// and waits there for its next turn. A function chooses the next actor, from a seed
// or from a list of all choices. Nothing else is left to chance.
//
// Its method at is the Reach of a manual executor. So actors stop inside commits,
// flushes, compactions and collections as well as between their calls.
type schedule struct {
	choose func(able []*actor) *actor
	// blocked reports whether the actor would wait for a lock that another actor
	// holds at its point.
	blocked func(a *actor) bool
	// skipped has the points at which actors stop only if they are blocked.
	skipped map[work.Point]bool
	// applied is called at work.PointApplied with the actor that has reached it.
	applied func(a *actor)

	actors  []*actor
	running *actor
	parked  chan struct{}
	patient *time.Timer
	fault   error // an error that no actor could return
	// abandoned lets all actors run to the end at once. The test ignores what they
	// see.
	abandoned atomic.Bool
	hangs     bool     // an actor does not give the turn back
	story     []string // for each turn the actor, and the point that it led to
}

// An actor is a goroutine that runs when it has the turn.
type actor struct {
	name  string
	act   func(a *actor) error
	at    work.Point
	turn  chan struct{}
	haste int // see byHaste
	err   error

	s    *schedule
	pend *pendingCommit // what it is committing
	// installs says that it has reached work.PointInstall, and takes the lock that is held
	// at work.PointEdited before any other point but work.PointStated.
	installs bool
}

// Points between the calls of actors.
const (
	pointIdle    work.Point = 100 + iota // before its next deed
	pointBetween                         // between two calls of one deed
	pointEnd                             // its goroutine has ended
	pointFull                            // before a commit that would wait for others
)

var pointNames = map[work.Point]string{
	work.PointPicked: "picked", work.PointCreate: "create", work.PointInstall: "install", work.PointEdited: "edited",
	work.PointReplaced: "replaced", work.PointDiscarded: "discarded", work.PointApplied: "applied", work.PointCopy: "copy", work.PointLoaded: "loaded", work.PointStated: "stated",
	pointIdle: "idle", pointBetween: "between", pointEnd: "end", pointFull: "full",
}

// errAbandoned ends an actor of an abandoned schedule.
var errAbandoned = errors.New("the schedule was abandoned")

// turnPatience is how long a turn may take before it counts as a deadlock. Some turns
// open many databases, and the machine may be busy.
const turnPatience = time.Minute

func newSchedule(choose func(able []*actor) *actor) *schedule {
	return &schedule{choose: choose, parked: make(chan struct{}), patient: time.NewTimer(turnPatience)}
}

// add gives the schedule another actor. act calls a.stop where other actors may
// run.
func (s *schedule) add(name string, act func(a *actor) error) {
	a := &actor{name: name, act: act, at: pointIdle, turn: make(chan struct{}), s: s}
	s.actors = append(s.actors, a)
	go func() {
		<-a.turn
		if !s.abandoned.Load() {
			a.err = testkit.CatchPanic(func() error { return a.act(a) })
		}
		a.at = pointEnd
		s.parked <- struct{}{}
	}()
}

// at stops the running actor at a point of the database.
func (s *schedule) at(p work.Point) {
	a := s.running
	if a == nil || s.abandoned.Load() {
		return // the goroutine that sets the scene
	}
	if p == work.PointApplied && s.applied != nil {
		s.applied(a)
	}
	a.installs = p == work.PointInstall || a.installs && p == work.PointStated
	if a.at = p; !s.skipped[p] || s.blocked(a) {
		a.park(p)
	}
}

// stop is a point between calls of the actor. It returns an error when the actor must
// end without another look at what the schedule knows.
func (a *actor) stop(p work.Point) error {
	a.installs = false
	a.park(p)
	return a.gone()
}

func (a *actor) gone() error {
	if a.s.abandoned.Load() {
		return errAbandoned
	}
	return nil
}

func (a *actor) park(p work.Point) {
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

// byHaste chooses actors at random. It draws how soon an actor goes on from a point when
// the actor reaches the point. Some actors rest a hundred times as long as others. The
// reason is that some faults show only while one actor rests at a bad place and the others
// do much.
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

// abandon ends all actors. Those in the middle of a deed run to its end at the same
// time, as in any database. If an actor hangs, abandon leaves it and all others
// alone.
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
