package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// operand makes an operand that no other merge has.
func (r *Run) operand(rng *rand.Rand) string {
	r.values++
	n := 0
	if rng.IntN(10) == 0 {
		n = rng.IntN(r.valueSize(rng))
	}
	return fmt.Sprintf("+%d%s", r.values, testkit.Filled(n))
}

// merge merges an operand on both sides.
func (r *Run) merge(p *Pair, key, operand string) error {
	r.say("t%d.Merge(%.40q, %.20q.. %d bytes)", p.name, key, operand, len(operand))
	r.Work.calls++
	p.model.Step(key, model.Step{Operand: operand, Tail: r.tail})
	return p.Tx.Merge([]byte(key), []byte(operand))
}

func opMerge(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	for range 1 + rng.IntN(3) {
		if err := r.merge(p, r.keys.pick(rng), r.operand(rng)); err != nil {
			return err
		}
	}
	return nil
}

// opMergeMany commits transactions that all merge into the same few keys.
func opMergeMany(r *Run, rng *rand.Rand) error {
	keys := []string{r.keys.pick(rng), r.keys.pick(rng)}
	for range 1 + rng.IntN(100) {
		p, err := r.Begin(true)
		if err != nil {
			return err
		}
		for range 1 + rng.IntN(2) {
			if err := r.merge(p, keys[rng.IntN(2)], r.operand(rng)); err != nil {
				return err
			}
		}
		if err := r.commit(p, 0); err != nil {
			return err
		}
	}
	return nil
}

func opRenew(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	return r.renew(p, rng, r.keys.near(rng))
}

// renew renews a key on both sides.
func (r *Run) renew(p *Pair, rng *rand.Rand, key string) error {
	at := p.model.NowMs + uint64(rng.IntN(60))
	if rng.IntN(5) == 0 {
		at = 0
	}
	r.say("t%d.Renew(%.40q, %d)", p.name, key, at)
	r.Work.calls++
	p.model.Step(key, model.Step{Renew: true, ExpiresAt: at})
	expiry := time.Time{}
	if at != 0 {
		expiry = time.UnixMilli(int64(at))
	}
	return p.Tx.Renew([]byte(key), stoat.ExpiresAt(expiry))
}

// opStepOverOwn commits a transaction that merges into a value that it has set itself, or
// renews it. The value may have expired by then.
func opStepOverOwn(r *Run, rng *rand.Rand) error {
	if err := r.settle(); err != nil { // so that the clock can move
		return err
	}
	p, err := r.Begin(true)
	if err != nil {
		return err
	}
	key, v := r.keys.pick(rng), r.value(rng)
	v.ExpiresAt = p.model.NowMs + uint64(rng.IntN(20))
	err = r.Write(p, key, v)
	if err == nil && rng.IntN(2) == 0 {
		err = r.renew(p, rng, key)
	} else if err == nil {
		err = r.merge(p, key, r.operand(rng))
	}
	if err == nil {
		err = opClockForward(r, rng)
	}
	if err != nil {
		return err
	}
	return r.commit(p, 0)
}

// opUnregistered opens the database without its merge functions for a while. Nothing
// that needs them can be read, and nothing is lost.
func opUnregistered(r *Run, rng *rand.Rand) error {
	if err := r.Close(); err != nil {
		return err
	}
	functions := r.Opts.MergeFunctions
	r.Opts.MergeFunctions = nil
	if _, err := r.Open(r.Model.Last(), r.Model.Last()); err != nil {
		return err
	}
	r.say("open without merge functions")
	if err := r.Compact(stoat.CompactOptions{}); err != nil {
		return err
	}
	err := r.DB.View(func(tx stoat.Txn) error {
		key := r.keys.pick(rng)
		_, err := tx.Get([]byte(key))
		if err != nil && !errors.Is(err, stoat.ErrNotFound) && !errors.Is(err, stoat.ErrNoMergeFunction) {
			return fmt.Errorf("get without merge functions: %w", err)
		}
		return nil
	})
	if err == nil {
		err = r.Close()
	}
	r.Opts.MergeFunctions = functions
	if err != nil {
		return err
	}
	_, err = r.Open(r.Model.Last(), r.Model.Last())
	return err
}
