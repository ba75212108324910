package model

import (
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// iteratorKinds are the operations on iterators. Iterators stay open while
// their transaction, and others, go on writing.
var iteratorKinds = []opKind{
	{"open iterator", 12, opOpenIterator},
	{"first", 8, stepOp(firstStep)},
	{"next", 40, stepOp(nextStep)},
	{"last", 8, stepOp(lastStep)},
	{"prev", 30, stepOp(prevStep)},
	{"seek", 20, stepOp(seekStep)},
	{"wander", 12, opWander},
	{"close iterator", 6, opCloseIterator},
	{"scan", 6, scanOp(func(*stoat.IterOptions) {})},
	{"scan in reverse", 6, scanOp(func(o *stoat.IterOptions) { o.Reverse = true })},
	{"scan keys only", 4, scanOp(func(o *stoat.IterOptions) { o.KeysOnly = true })},
	{"scan all versions", 4, scanOp(func(o *stoat.IterOptions) { o.AllVersions = true })},
	{"seek storm", 4, opSeekStorm},
	{"write under an iterator", 8, opWriteUnderIterator},
}

func randomIterOptions(r *Run, rng *rand.Rand) stoat.IterOptions {
	var o stoat.IterOptions
	if rng.IntN(3) == 0 {
		o.Lower = []byte(r.keys.near(rng))
	}
	if rng.IntN(3) == 0 {
		o.Upper = []byte(r.keys.near(rng))
	}
	if rng.IntN(16) == 0 {
		o.Upper = []byte{} // no key is below it
	}
	if rng.IntN(6) == 0 {
		prefix := r.keys.pick(rng)
		o.Prefix = []byte(prefix[:rng.IntN(len(prefix)+1)])
	}
	o.Reverse, o.KeysOnly = rng.IntN(2) == 0, rng.IntN(3) == 0
	o.AllVersions = rng.IntN(5) == 0
	if rng.IntN(6) == 0 {
		o.Since = rng.Uint64N(r.Model.Last() + 1)
	}
	return o
}

// modelOptions returns the options of the model that mean the same.
func modelOptions(o stoat.IterOptions) model.IterOptions {
	return model.IterOptions{
		Lower: string(o.Lower), Upper: string(o.Upper), Bounded: o.Upper != nil, Prefix: string(o.Prefix),
		Reverse: o.Reverse, AllVersions: o.AllVersions, KeysOnly: o.KeysOnly, Since: o.Since,
	}
}

// iterator opens an iterator on both sides.
func (r *Run) iterator(p *Pair, o stoat.IterOptions) *iterPair {
	r.values++
	it := &iterPair{name: r.values, o: o, it: p.Tx.Iterator(o)}
	it.model = p.model.Iterator(modelOptions(o))
	r.say("i%d := t%d.Iterator(lower %.40q upper %.40q prefix %.40q reverse %v keys %v versions %v since %d)",
		it.name, p.name, o.Lower, o.Upper, o.Prefix, o.Reverse, o.KeysOnly, o.AllVersions, o.Since)
	// The bounds may be changed once the iterator has them.
	clear(o.Lower)
	clear(o.Upper)
	clear(o.Prefix)
	return it
}

func (it *iterPair) close() {
	it.it.Close()
	it.model.Close()
}

// A stepKind is a move of an iterator.
type stepKind int

const (
	firstStep stepKind = iota
	lastStep
	nextStep
	prevStep
	seekStep
)

// step moves an iterator on both sides and demands that it shows the same.
func (r *Run) step(it *iterPair, kind stepKind, key string) (ok bool, err error) {
	err = r.counted(func() error {
		var want bool
		switch kind {
		case firstStep:
			ok, want = it.it.First(), it.model.First()
			r.say("i%d.First", it.name)
		case lastStep:
			ok, want = it.it.Last(), it.model.Last()
			r.say("i%d.Last", it.name)
		case nextStep:
			ok, want = it.it.Next(), it.model.Next()
			r.say("i%d.Next", it.name)
		case prevStep:
			ok, want = it.it.Prev(), it.model.Prev()
			r.say("i%d.Prev", it.name)
		case seekStep:
			ok, want = it.it.Seek([]byte(key)), it.model.Seek(key)
			r.say("i%d.Seek(%.40q)", it.name, key)
		}
		return sameStep(it, ok, want)
	})
	return ok, err
}

func sameStep(it *iterPair, ok, want bool) error {
	if err := it.it.Err(); err != nil {
		return fmt.Errorf("i%d: %w", it.name, err)
	}
	if ok != it.it.Valid() {
		return fmt.Errorf("i%d: the move reports %v, Valid reports %v", it.name, ok, it.it.Valid())
	}
	got, err := shown(it, ok)
	switch {
	case err != nil:
		return err
	case it.o.AllVersions:
		if err := it.model.Reach(got, ok); err != nil {
			return fmt.Errorf("i%d: %w", it.name, err)
		}
	case !ok && want:
		return fmt.Errorf("i%d is at its end, want %v", it.name, it.model.Item())
	case ok && !want:
		return fmt.Errorf("i%d is at %v, want its end", it.name, got)
	case ok && got != it.model.Item():
		return fmt.Errorf("i%d is at %v, want %v", it.name, got, it.model.Item())
	}
	return nil
}

// shown is what the database's iterator shows in all ways it has.
func shown(it *iterPair, ok bool) (got model.Item, err error) {
	if !ok {
		return got, nil
	}
	if it.o.KeysOnly {
		got, err = testkit.KeyOf(it.it.Item())
	} else {
		got, err = testkit.ItemOf(it.it.Item())
	}
	if err != nil {
		return got, err
	}
	value := got.Value
	if it.o.KeysOnly {
		value = ""
	}
	if string(it.it.Key()) != got.Key || string(it.it.Value()) != value || it.o.KeysOnly && it.it.Value() != nil {
		return got, fmt.Errorf("i%d: Key is %.40q and Value %.40q, Item is %v", it.name, it.it.Key(), it.it.Value(), got)
	}
	return got, nil
}

// scan takes at most limit steps with a new iterator.
func (r *Run) scan(p *Pair, o stoat.IterOptions, limit int) error {
	it := r.iterator(p, o)
	defer it.close()
	for range limit {
		if ok, err := r.step(it, nextStep, ""); !ok || err != nil {
			return err
		}
	}
	return nil
}

func scanOp(change func(*stoat.IterOptions)) func(*Run, *rand.Rand) error {
	return func(r *Run, rng *rand.Rand) error {
		p, err := r.txn(rng, false)
		if err != nil {
			return err
		}
		o := randomIterOptions(r, rng)
		change(&o)
		limit := 1 << 30
		if rng.IntN(2) == 0 {
			limit = rng.IntN(40)
		}
		return r.scan(p, o, limit)
	}
}

// openIterator returns an open iterator of a transaction, or opens one.
func (r *Run) openIterator(rng *rand.Rand) (*Pair, *iterPair, error) {
	p, err := r.txn(rng, false)
	if err != nil {
		return nil, nil, err
	}
	if len(p.iters) == 0 {
		p.iters = append(p.iters, r.iterator(p, randomIterOptions(r, rng)))
	}
	return p, p.iters[rng.IntN(len(p.iters))], nil
}

func opOpenIterator(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil || len(p.iters) >= 4 {
		return err
	}
	p.iters = append(p.iters, r.iterator(p, randomIterOptions(r, rng)))
	return nil
}

func opCloseIterator(r *Run, rng *rand.Rand) error {
	p, it, err := r.openIterator(rng)
	if err != nil {
		return err
	}
	r.say("i%d.Close", it.name)
	it.close()
	for i := range p.iters {
		if p.iters[i] == it {
			p.iters = append(p.iters[:i], p.iters[i+1:]...)
			break
		}
	}
	if it.it.Next() || it.it.Valid() || it.it.Err() == nil {
		return fmt.Errorf("i%d moves after Close, or has no error", it.name)
	}
	return nil
}

func stepOp(kind stepKind) func(*Run, *rand.Rand) error {
	return func(r *Run, rng *rand.Rand) error {
		_, it, err := r.openIterator(rng)
		if err != nil {
			return err
		}
		key, step := r.keys.near(rng), kind
		for range 1 + rng.IntN(4) {
			if ok, err := r.step(it, step, key); !ok || err != nil {
				return err
			}
			if step = nextStep; kind == lastStep || kind == prevStep {
				step = prevStep
			}
		}
		return nil
	}
}

// opWander moves an iterator to and fro, also past its ends.
func opWander(r *Run, rng *rand.Rand) error {
	_, it, err := r.openIterator(rng)
	if err != nil {
		return err
	}
	for range rng.IntN(20) {
		kind := []stepKind{nextStep, prevStep, nextStep, prevStep, seekStep}[rng.IntN(5)]
		for range 1 + rng.IntN(4) {
			if _, err := r.step(it, kind, r.keys.near(rng)); err != nil {
				return err
			}
		}
	}
	return nil
}

func opSeekStorm(r *Run, rng *rand.Rand) error {
	_, it, err := r.openIterator(rng)
	if err != nil {
		return err
	}
	for range rng.IntN(40) {
		if _, err := r.step(it, seekStep, r.keys.near(rng)); err != nil {
			return err
		}
		if rng.IntN(3) == 0 {
			if _, err := r.step(it, nextStep, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// opWriteUnderIterator writes around an iterator's place: it must go on as if
// nothing had been written since it was positioned.
func opWriteUnderIterator(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	if len(p.iters) == 0 {
		p.iters = append(p.iters, r.iterator(p, randomIterOptions(r, rng)))
	}
	it := p.iters[rng.IntN(len(p.iters))]
	for range 1 + rng.IntN(10) {
		v := r.value(rng)
		v.Deleted = rng.IntN(3) == 0
		if v.Deleted {
			v.Value = ""
		}
		if err := r.Write(p, r.keys.near(rng), v); err != nil {
			return err
		}
		if _, err := r.step(it, nextStep, ""); err != nil {
			return err
		}
	}
	return nil
}
