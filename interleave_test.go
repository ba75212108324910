package stoat

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A scenario is a few actors with a few steps each, small enough that all
// orders of their steps can be gone through.
type scenario struct {
	// fault is the one of other databases' histories that it is about.
	fault string
	// points are those inside of jobs and commits where others may come in.
	points []point
	// furnish makes the database that each run begins with.
	furnish func(w *scheduleWorld) error
	// cast adds the actors.
	cast func(w *scheduleWorld)
	// comesTo reports whether the orders together came to what they are about.
	comesTo func(did scheduleCounts) bool
}

// shortOrders is how many orders of each scenario are played, at random, when
// there is no time for all.
const shortOrders = 30

// TestInterleavings goes through all orders of the steps of each scenario. After
// each, nobody has seen what he should not have, and the database holds what it
// should, before and after another opening.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.fault, func(t *testing.T) {
			t.Parallel()
			begin, err := s.prepared()
			if err != nil {
				t.Fatalf("before the first: %v", err)
			}
			var n int
			var did scheduleCounts
			if testing.Short() {
				n, did, err = s.playSome(begin, shortOrders)
			} else {
				n, did, err = s.playAll(begin)
			}
			if err != nil {
				t.Fatalf("order %d: %v", n, err)
			}
			t.Logf("%d orders: %+v", n, did)
			if !s.comesTo(did) {
				t.Error("the orders do not come to what they are about")
			}
		})
	}
}

// prepared returns the world that each run begins with a copy of.
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

// playAll plays every order of the steps. It returns how many there were, and
// what they did.
func (s *scenario) playAll(begin *scheduleWorld) (n int, did scheduleCounts, err error) {
	var o orders
	for first := true; err == nil && (first || o.next()); first = false {
		err = s.play(begin.copied(o.choose), &did)
		n++
	}
	return n, did, err
}

// playSome plays some orders.
func (s *scenario) playSome(begin *scheduleWorld, some int) (n int, did scheduleCounts, err error) {
	for ; err == nil && n < some; n++ {
		err = s.play(begin.copied(byHaste(rand.New(rand.NewPCG(uint64(n), 2)))), &did)
	}
	return n, did, err
}

// play plays one order, which the schedule of w chooses.
func (s *scenario) play(w *scheduleWorld, did *scheduleCounts) error {
	err := panicsAsErrors(func() error { return s.playIn(w) })
	if err != nil {
		w.leave()
		return fmt.Errorf("%w\n  after %v", err, w)
	}
	did.add(w.did)
	return nil
}

func (s *scenario) playIn(w *scheduleWorld) error {
	if err := s.playTurns(w); err != nil {
		return err
	}
	return w.end()
}

// playTurns is playIn without the end.
func (s *scenario) playTurns(w *scheduleWorld) error {
	w.skipped = map[point]bool{}
	for p := pointPicked; p <= pointStated; p++ {
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

// orders goes through all lists of choices, the last one first.
type orders struct {
	path, widths []int // what was chosen at each fork, out of how many
	at           int
}

// choose follows the list, and beyond its end takes the first.
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

func TestOrdersAreAllThatThereAre(t *testing.T) {
	t.Parallel()
	// Three and two steps in all orders: 5!/(3! 2!).
	var o orders
	seen := map[string]bool{}
	for first := true; first || o.next(); first = false {
		left := map[*actor]int{{name: "a"}: 3, {name: "b"}: 2}
		var all []*actor
		for _, name := range []string{"a", "b"} {
			for a := range left {
				if a.name == name {
					all = append(all, a)
				}
			}
		}
		story := ""
		for {
			var able []*actor
			for _, a := range all {
				if left[a] > 0 {
					able = append(able, a)
				}
			}
			if len(able) == 0 {
				break
			}
			a := o.choose(able)
			left[a]--
			story += a.name
		}
		if seen[story] {
			t.Errorf("%s comes twice", story)
		}
		seen[story] = true
	}
	if len(seen) != 10 {
		t.Errorf("%d orders, want 10: %v", len(seen), seen)
	}
}
