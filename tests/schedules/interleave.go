package schedules

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat/internal/testing/testkit"
	"github.com/stoatdb/stoat/internal/work"
)

// A scenario is a few actors with a few steps each. It is small enough to play all
// orders of the steps.
type scenario struct {
	// fault names what went wrong in another database.
	fault string
	// points are where jobs and commits stop, so that other actors may run.
	points []work.Point
	// furnish makes the database that each order begins with.
	furnish func(w *scheduleWorld) error
	// cast adds the actors.
	cast func(w *scheduleWorld)
	// comesTo reports whether the orders together did what the fault needs.
	comesTo func(did scheduleCounts) bool
}

// prepared returns the world of which each order begins with a copy.
func (s *scenario) prepared() (*scheduleWorld, error) {
	w := newScheduleWorld(nil, 1)
	err := w.open(0)
	if err == nil {
		err = s.furnish(w)
	}
	if err == nil {
		err = w.close()
	}
	return w, err
}

// playAll plays every order of the steps. It returns how many there are, and what
// they did.
func (s *scenario) playAll(begin *scheduleWorld) (n int, did scheduleCounts, err error) {
	var o orders
	for first := true; err == nil && (first || o.next()); first = false {
		err = s.play(begin.copied(o.choose), &did)
		n++
	}
	return n, did, err
}

// playSome plays some random orders.
func (s *scenario) playSome(begin *scheduleWorld, some int) (n int, did scheduleCounts, err error) {
	for ; err == nil && n < some; n++ {
		err = s.play(begin.copied(byHaste(rand.New(rand.NewPCG(uint64(n), 2)))), &did)
	}
	return n, did, err
}

// play plays the order that the schedule of w chooses.
func (s *scenario) play(w *scheduleWorld, did *scheduleCounts) error {
	err := testkit.CatchPanic(func() error { return s.playIn(w) })
	if err != nil {
		w.leave()
		return fmt.Errorf("%w\n  after %v", err, w)
	}
	did.add(w.did)
	return nil
}

// playIn is play without what an error needs.
func (s *scenario) playIn(w *scheduleWorld) error {
	if err := s.playTurns(w); err != nil {
		return err
	}
	return w.end()
}

// playTurns plays until all actors have ended.
func (s *scenario) playTurns(w *scheduleWorld) error {
	w.skipped = map[work.Point]bool{}
	for p := work.PointPicked; p <= work.PointStated; p++ {
		w.skipped[p] = true
	}
	for _, p := range s.points {
		delete(w.skipped, p)
	}
	if err := w.open(w.m.Last()); err != nil {
		return err
	}
	s.cast(w)
	return w.playOut()
}

// playOut gives turns until all actors have ended.
func (w *scheduleWorld) playOut() error {
	for {
		did, err := w.next(func(*actor) bool { return true })
		if !did || err != nil {
			return err
		}
	}
}

// orders goes through all lists of choices. The last choice changes first.
type orders struct {
	path, widths []int // the choice at each fork, and out of how many
	at           int
}

// choose follows the list. Beyond its end it takes the first actor.
func (o *orders) choose(able []*actor) *actor {
	if len(able) == 1 {
		return able[0]
	}
	if o.at == len(o.path) {
		o.path, o.widths = append(o.path, 0), append(o.widths, len(able))
	}
	o.at++
	return able[o.path[o.at-1]]
}

// next moves to the next list, and reports false after the last one.
func (o *orders) next() bool {
	for o.at = 0; len(o.path) > 0; {
		last := len(o.path) - 1
		if o.path[last]++; o.path[last] < o.widths[last] {
			return true
		}
		o.path, o.widths = o.path[:last], o.widths[:last]
	}
	return false
}
