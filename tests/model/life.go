package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
)

const (
	// lifeOps is how many random operations one database lives for. Each
	// makes one call of the database or many; the test counts calls.
	lifeOps = 500
	// callsMin is with how many calls lives come to every kind of work: to the
	// rarest twenty times and more.
	callsMin = 200_000
)

// A randomOp is one random operation. It has a kind, and the seed of everything else about
// it. So it stays the same when others before it are taken out.
type randomOp struct {
	kind int
	seed uint64
}

// checkLife runs one database and returns how much it did. It tells a failure
// with the shortest list of operations that still fails.
func checkLife(seed uint64) (work Work, err error) {
	shape, ops := randomShape(seed), randomOps(seed, lifeOps)
	at, work, err := runOps(shape, ops, nil)
	if err == nil {
		return work, nil
	}
	ops = shorten(shape, ops[:at+1])
	var story strings.Builder
	_, _, last := runOps(shape, ops, func(format string, args ...any) {
		fmt.Fprintf(&story, "    "+format+"\n", args...)
	})
	if last == nil {
		// The failure depends on the schedule: tell at least what was seen.
		last = fmt.Errorf("%w (not seen again when the list was told)", err)
	}
	return work, fmt.Errorf("keys %q, memtable %d, budget %d, durability %d, clock still %v, %d versions, compression %d, home %q after %d: %w\n%s  first seen as: %v\n  this life alone: make model SEED=%d OPS=1",
		shape.Keys.name, shape.Memtable, shape.budget, shape.Durability, shape.Still, shape.versions, shape.compress, shape.home, shape.fillers, last, story.String(), err, seed)
}

// RunLife plays the life of one seed. It returns a failure as it is, without
// shortening its list of operations.
func RunLife(seed uint64) error {
	_, _, err := runOps(randomShape(seed), randomOps(seed, lifeOps), nil)
	return err
}

// randomOps draws the operations of a run. A kind that was just used is often
// used again, so that bursts of one kind occur.
func randomOps(seed uint64, n int) []randomOp {
	rng := rand.New(rand.NewPCG(seed, 0x0b5))
	total := 0
	for _, k := range opKinds {
		total += k.weight
	}
	ops := make([]randomOp, n)
	for i := range ops {
		ops[i].seed = rng.Uint64()
		if i > 0 && rng.IntN(4) == 0 {
			ops[i].kind = ops[i-1].kind
			continue
		}
		w := rng.IntN(total)
		for w >= opKinds[ops[i].kind].weight {
			w -= opKinds[ops[i].kind].weight
			ops[i].kind++
		}
	}
	return ops
}

// runOps runs the operations on a fresh database, and verifies it at the
// end, after a reopening. It returns the index of the operation that failed.
func runOps(shape Shape, ops []randomOp, narrate func(string, ...any)) (at int, work Work, err error) {
	r := NewRun(shape)
	r.narrate = narrate
	defer func() {
		work = r.Work
		if p := recover(); p != nil {
			stack := make([]byte, 16<<10)
			err = fmt.Errorf("panic: %v\n%s", p, stack[:runtime.Stack(stack, false)])
		}
	}()
	defer func() {
		if err != nil && r.DB != nil {
			for _, p := range r.txns {
				p.Tx.Discard()
			}
			r.DB.Close() // what comes of it does not matter any more
		}
	}()
	if _, err := r.Open(0, 0); err != nil {
		return 0, work, err
	}
	if err := errors.Join(r.keepTime(), r.setGuards()); err != nil {
		return 0, work, err
	}
	src := rand.NewPCG(0, 0)
	rng := rand.New(src)
	for i, op := range ops {
		at = i
		src.Seed(op.seed, 0)
		k := &opKinds[op.kind]
		r.say("# %s", k.name)
		if err := k.do(r, rng); err != nil {
			return i, work, fmt.Errorf("operation %d, %s: %w", i, k.name, err)
		}
	}
	if err := opVerify(r, nil); err != nil {
		return at, work, fmt.Errorf("at the end: %w", err)
	}
	if err := OpReopen(r, nil); err != nil {
		return at, work, fmt.Errorf("at the end: %w", err)
	}
	if err := opVerify(r, nil); err != nil {
		return at, work, fmt.Errorf("after the last reopening: %w", err)
	}
	return at, work, r.Close()
}

// shorten takes operations out of a failing list while it still fails: first
// large stretches, then small ones, then single operations.
func shorten(shape Shape, ops []randomOp) []randomOp {
	for size := max(1, len(ops)/2); ; size /= 2 {
		for at := 0; at < len(ops); {
			end := min(at+size, len(ops))
			fewer := append(append([]randomOp(nil), ops[:at]...), ops[end:]...)
			if last, _, err := runOps(shape, fewer, nil); err != nil {
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
