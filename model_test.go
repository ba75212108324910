package stoat_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/dose"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

const (
	// modelLifeOps is how many random operations one database lives for. Each
	// makes one call of the database or many; the test counts calls.
	modelLifeOps = 500
	// modelCallsMin is with how many calls lives come to every kind of work: to the
	// rarest twenty times and more.
	modelCallsMin = 200_000
)

// A modelOp is one random operation: its kind, and the seed of everything
// else about it, so that it stays the same when others before it are taken
// out.
type modelOp struct {
	kind int
	seed uint64
}

// TestModel runs random operations on databases with random options and on
// the model, and demands the same answers. A run that fails is shortened
// until every operation that is left is needed, and told as a list.
func TestModel(t *testing.T) {
	t.Parallel()
	seed := dose.Seed(t)
	calls := int64(dose.Size(t, dose.Ops, 10_000, 200_000))
	dose.Reproduce(t, "model")
	var next, done atomic.Int64
	var tally testkit.WorkTally
	var failed testkit.FirstError
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for failed.Get() == nil && done.Load() < calls {
				w, err := modelLife(seed + uint64(next.Add(1)-1))
				done.Add(w.calls)
				tally.Add(w.tally)
				failed.Set(err)
			}
		})
	}
	workers.Wait()
	if err := failed.Get(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls in %d lives: %v", done.Load(), next.Load(), &tally)
	wanted := []testkit.Work{testkit.Flushes, testkit.Merges}
	if calls >= modelCallsMin {
		wanted = testkit.AllWork
	}
	if err := tally.Lacks(wanted...); err != nil {
		t.Error(err)
	}
}

// modelLife runs one database and returns how much it did. It tells a failure
// with the shortest list of operations that still fails.
func modelLife(seed uint64) (work modelWork, err error) {
	shape, ops := randomShape(seed), randomOps(seed, modelLifeOps)
	at, work, err := runModel(shape, ops, nil)
	if err == nil {
		return work, nil
	}
	ops = shorten(shape, ops[:at+1])
	var story strings.Builder
	_, _, last := runModel(shape, ops, func(format string, args ...any) {
		fmt.Fprintf(&story, "    "+format+"\n", args...)
	})
	if last == nil {
		// The failure depends on the schedule: tell at least what was seen.
		last = fmt.Errorf("%w (not seen again when the list was told)", err)
	}
	return work, fmt.Errorf("keys %q, memtable %d, durability %d, clock still %v, %d versions, compression %d: %w\n%s  first seen as: %v\n  this life alone: make model SEED=%d OPS=1",
		shape.keys.name, shape.memtable, shape.durability, shape.still, shape.versions, shape.compress, last, story.String(), err, seed)
}

// randomOps draws the operations of a run. A kind that was just used is often
// used again, so that bursts of one kind occur.
func randomOps(seed uint64, n int) []modelOp {
	rng := rand.New(rand.NewPCG(seed, 0x0b5))
	total := 0
	for _, k := range modelKinds {
		total += k.weight
	}
	ops := make([]modelOp, n)
	for i := range ops {
		ops[i].seed = rng.Uint64()
		if i > 0 && rng.IntN(4) == 0 {
			ops[i].kind = ops[i-1].kind
			continue
		}
		w := rng.IntN(total)
		for w >= modelKinds[ops[i].kind].weight {
			w -= modelKinds[ops[i].kind].weight
			ops[i].kind++
		}
	}
	return ops
}

// runModel runs the operations on a fresh database, and verifies it at the
// end, after a reopening. It returns the index of the operation that failed.
func runModel(shape modelShape, ops []modelOp, narrate func(string, ...any)) (at int, work modelWork, err error) {
	r := newModelRun(shape)
	r.narrate = narrate
	defer func() {
		work = r.work
		if p := recover(); p != nil {
			stack := make([]byte, 16<<10)
			err = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	defer func() {
		if err != nil && r.db != nil {
			for _, p := range r.txns {
				p.tx.Discard()
			}
			r.db.Close() // what comes of it does not matter any more
		}
	}()
	if _, err := r.open(0, 0); err != nil {
		return 0, work, err
	}
	if err := r.keepTime(); err != nil {
		return 0, work, err
	}
	src := rand.NewPCG(0, 0)
	rng := rand.New(src)
	for i, op := range ops {
		at = i
		src.Seed(op.seed, 0)
		k := &modelKinds[op.kind]
		r.say("# %s", k.name)
		if err := k.do(r, rng); err != nil {
			return i, work, fmt.Errorf("operation %d, %s: %w", i, k.name, err)
		}
	}
	if err := opVerify(r, nil); err != nil {
		return at, work, fmt.Errorf("at the end: %w", err)
	}
	if err := opReopen(r, nil); err != nil {
		return at, work, fmt.Errorf("at the end: %w", err)
	}
	if err := opVerify(r, nil); err != nil {
		return at, work, fmt.Errorf("after the last reopening: %w", err)
	}
	return at, work, r.close()
}

// shorten takes operations out of a failing list while it still fails: first
// large stretches, then small ones, then single operations.
func shorten(shape modelShape, ops []modelOp) []modelOp {
	for size := max(1, len(ops)/2); ; size /= 2 {
		for at := 0; at < len(ops); {
			end := min(at+size, len(ops))
			fewer := append(append([]modelOp(nil), ops[:at]...), ops[end:]...)
			if last, _, err := runModel(shape, fewer, nil); err != nil {
				ops = fewer[:min(last+1, len(fewer))]
			} else {
				at = end
			}
		}
		if size <= 1 {
			return ops
		}
	}
}
