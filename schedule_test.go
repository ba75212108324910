package stoat

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
)

// scheduleTurns is how many turns one schedule has at most. After them each actor
// finishes its deed.
const scheduleTurns = 120

// TestSchedules lets writers, deleters, readers, iterators, the flusher, the
// compactor, collections, checkpoints and crashes take turns in the middle of
// what they do. The order follows from the seed alone. All that they see must agree
// with a model with versions.
func TestSchedules(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	n := int64(dose.Size(t, dose.Schedules, 150, 600))
	dose.Reproduce(t, "schedules")
	var next atomic.Int64
	var mu sync.Mutex
	var did scheduleCounts
	var failed error
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := next.Add(1) - 1
				mu.Lock()
				stop := failed != nil
				mu.Unlock()
				if stop || i >= n {
					return
				}
				counts, err := runSchedule(seed + uint64(i))
				mu.Lock()
				did.add(counts)
				if err != nil && failed == nil {
					failed = fmt.Errorf("%w\n  this schedule alone: make schedules SEED=%d SCHEDULES=1", err, seed+uint64(i))
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	t.Logf("%d schedules: %+v", n, did)
	if did.merges == 0 || did.moves == 0 || did.collections == 0 || did.gatherings == 0 || did.checkpoints == 0 || did.conflicts == 0 ||
		did.asides == 0 || did.dropped == 0 || did.forgotten == 0 {
		t.Error("the schedules do not come to everything")
	}
}

// TestSchedules_OneSeedIsOneOrder plays schedules twice and demands the same turns.
func TestSchedules_OneSeedIsOneOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		var stories [2]string
		for i := range stories {
			w := newScheduleWorld(nil, 1)
			if err := w.playSeed(seed); err != nil {
				t.Fatal(err)
			}
			stories[i] = w.String()
		}
		if stories[0] != stories[1] {
			t.Fatalf("seed %d:\n%s\nand then:\n%s", seed, stories[0], stories[1])
		}
	}
}

// runSchedule plays one random schedule.
func runSchedule(seed uint64) (scheduleCounts, error) {
	w := newScheduleWorld(nil, 1+int(seed%2))
	w.openings = int(seed / 2 % 3)
	err := panicsAsErrors(func() error { return w.playSeed(seed) })
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
	repeat("sweeper", func(*actor, *rand.Rand) error { w.db.engine.Store.Sweep(); return nil })
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
	w.story = append(w.story, fmt.Sprintf("%s(at commit %d)", what, w.db.engine.Store.Visible()))
	if len(w.actors) == 0 {
		w.cast(rng)
	}
	return nil
}
