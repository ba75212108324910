package schedules

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// scheduleTurns is how many turns one schedule has at most. After them each actor
// finishes its deed.
const scheduleTurns = 120

// RunSchedule plays one random schedule, for tests outside of the package.
func RunSchedule(seed uint64) error {
	_, err := runSchedule(seed)
	return err
}

// runSchedule plays one random schedule.
func runSchedule(seed uint64) (scheduleCounts, error) {
	w := newScheduleWorld(nil, 1+int(seed%2))
	w.openings = int(seed / 2 % 3)
	err := testkit.CatchPanic(func() error { return w.playSeed(seed) })
	if err != nil {
		w.leave()
		err = fmt.Errorf("%w\n  after %v", err, w)
	}
	return w.did, err
}

// playSeed plays the schedule of a seed to its end.
func (w *scheduleWorld) playSeed(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0x5c4e))
	w.choose, w.home, w.aside = byHaste(rng), rng.IntN(3) == 0, rng.IntN(3) == 0
	if w.filters = rng.IntN(3) == 0; w.filters {
		w.opts.Filter, w.opts.Filters = settler{}.Name(), []stoat.Filter{settler{&w.did.settled, &w.did.doomed}}
	}
	if err := w.open(0); err != nil {
		return err
	}
	if err := w.furnish(rng); err != nil {
		return err
	}
	w.cast(rng)
	for range scheduleTurns/3 + rng.IntN(scheduleTurns*2/3) {
		if err := w.turnOfEvents(rng); err != nil {
			return err
		}
		if _, err := w.next(w.mayBegin); err != nil {
			return err
		}
	}
	return w.end()
}

// cast makes the actors of a random schedule.
func (w *scheduleWorld) cast(rng *rand.Rand) {
	repeat := func(name string, deed func(a *actor, rng *rand.Rand) error) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 1))
		w.add(name, func(a *actor) error {
			for {
				if err := deed(a, own); err != nil && !errors.Is(err, errAbandoned) {
					return err
				}
				if err := a.stop(pointIdle); err != nil {
					return nil
				}
			}
		})
	}
	repeat("writer", w.writeSomething)
	repeat("rewriter", w.writeSomething)
	repeat("reader", w.readSomething)
	repeat("iterator", w.iterateSomewhere)
	repeat("flusher", func(_ *actor, rng *rand.Rand) error {
		if rng.IntN(3) > 0 {
			return w.rotateAndFlush()
		}
		return w.flush()
	})
	repeat("compactor", func(_ *actor, rng *rand.Rand) error { return w.compactSomething(rng) })
	repeat("collector", func(_ *actor, rng *rand.Rand) error { return w.collect(rng.IntN(2) == 0) })
	repeat("checkpointer", func(a *actor, rng *rand.Rand) error {
		if rng.IntN(3) > 0 {
			return nil
		}
		return w.checkpoint(a)
	})
	repeat("sweeper", func(*actor, *rand.Rand) error { w.db.Engine.Store.Sweep(); return nil })
	if w.aside {
		w.castAside(repeat)
	}
}

// mayBegin reports whether an actor may have its turn now. A checkpoint waits for a
// flush of what was committed, and would not give the turn back meanwhile.
func (w *scheduleWorld) mayBegin(a *actor) bool {
	if a.at != pointIdle {
		return true
	}
	return (a.name != "checkpointer" || w.flushed()) && w.mayDrop(a)
}

// turnOfEvents seldom lets something happen to the whole database.
func (w *scheduleWorld) turnOfEvents(rng *rand.Rand) error {
	w.clock.ms.Add(rng.Uint64N(2))
	var err error
	what := ""
	switch rng.IntN(400) {
	case 0:
		what, err = "crash", w.crash(rng)
	case 1:
		what, err = "reopen", w.reopen()
	case 2:
		what, err = "tried crash", w.tryCrash(rng)
	case 3:
		what, err = "check", w.check()
	default:
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	w.story = append(w.story, fmt.Sprintf("%s(at commit %d)", what, w.db.Engine.Store.Visible()))
	if len(w.actors) == 0 {
		w.cast(rng)
	}
	return nil
}
