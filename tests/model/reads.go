package model

import (
	"errors"
	"fmt"
	stditer "iter"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// readKinds are the operations that read by key or by loop.
var readKinds = []opKind{
	{"get", 50, getOp(false, (*Run).get)},
	{"get of an own write", 15, getOp(true, (*Run).get)},
	{"has", 15, getOp(false, (*Run).has)},
	{"get item", 15, getOp(false, (*Run).getItem)},
	{"get copy", 8, getOp(false, (*Run).getCopy)},
	{"get many", 12, opGetMany},
	{"loop over all", 3, opAll},
	{"loop over a prefix", 6, opPrefix},
	{"loop over a range", 8, opRange},
	{"loop with options", 8, opLoop},
	{"view", 10, opView},
	{"old snapshot again", 4, opOldSnapshot},
}

func getOp(own bool, get func(*Run, *Pair, string) error) func(*Run, *rand.Rand) error {
	return func(r *Run, rng *rand.Rand) error {
		p, err := r.txn(rng, own)
		if err != nil {
			return err
		}
		key := r.keys.near(rng)
		if own {
			if err := r.Write(p, key, r.value(rng)); err != nil {
				return err
			}
		}
		return get(r, p, key)
	}
}

func (r *Run) get(p *Pair, key string) error {
	return r.counted(func() error {
		value, err := p.Tx.Get([]byte(key))
		want, found := p.model.Get(key)
		r.say("t%d.Get(%.40q) = %.20q, %v", p.name, key, value, err)
		return sameValue(string(value), err, want, found)
	})
}

func sameValue(value string, err error, want model.Version, found bool) error {
	switch {
	case !found && !errors.Is(err, stoat.ErrNotFound):
		return fmt.Errorf("got %.40q, error %v, want ErrNotFound", value, err)
	case found && err != nil:
		return fmt.Errorf("got error %w, want %v", err, model.Item{Version: want})
	case found && value != want.Value:
		return fmt.Errorf("got %.40q, want %v", value, model.Item{Version: want})
	}
	return nil
}

func (r *Run) has(p *Pair, key string) error {
	return r.counted(func() error {
		has, err := p.Tx.Has([]byte(key))
		_, found := p.model.Get(key)
		r.say("t%d.Has(%.40q) = %v, %v", p.name, key, has, err)
		if err != nil || has != found {
			return fmt.Errorf("has %.40q: %v, error %v, want %v", key, has, err, found)
		}
		return nil
	})
}

func (r *Run) getItem(p *Pair, key string) error {
	return r.counted(func() error {
		item, err := p.Tx.GetItem([]byte(key))
		want, found := p.model.Get(key)
		r.say("t%d.GetItem(%.40q), %v", p.name, key, err)
		if !found || err != nil {
			return sameValue("", err, want, found)
		}
		got, err := testkit.ItemOf(item)
		if err != nil {
			return err
		}
		if got != (model.Item{Key: key, Version: want}) {
			return fmt.Errorf("got item %v, want %v", got, model.Item{Key: key, Version: want})
		}
		return nil
	})
}

// opGetMany looks up several keys at once, some of them twice.
func opGetMany(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	var keys [][]byte
	for range rng.IntN(1 << rng.IntN(8)) {
		keys = append(keys, []byte(r.keys.near(rng)))
	}
	return r.counted(func() error {
		r.say("t%d.GetMany(%.40q)", p.name, keys)
		values, err := p.Tx.GetMany(keys, [][]byte{[]byte("before")})
		if err != nil || len(values) != len(keys)+1 || string(values[0]) != "before" {
			return fmt.Errorf("GetMany of %d keys returns %d values after %.20q: %w", len(keys), len(values), values, err)
		}
		for i, key := range keys {
			var err error
			if values[i+1] == nil {
				err = stoat.ErrNotFound
			}
			want, found := p.model.Get(string(key))
			if err := sameValue(string(values[i+1]), err, want, found); err != nil {
				return fmt.Errorf("GetMany, key %d, %.40q: %w", i, key, err)
			}
		}
		return nil
	})
}

func (r *Run) getCopy(p *Pair, key string) error {
	return r.counted(func() error {
		value, err := p.Tx.GetCopy([]byte(key), []byte("before "))
		want, found := p.model.Get(key)
		r.say("t%d.GetCopy(%.40q), %v", p.name, key, err)
		if !strings.HasPrefix(string(value), "before ") {
			return fmt.Errorf("GetCopy returns %.40q, want it to begin with what dst held", value)
		}
		return sameValue(string(value[len("before "):]), err, want, found)
	})
}

// loop runs a range-over-func beside the iterator of the model and leaves it
// after limit turns.
func (r *Run) loop(p *Pair, seq stditer.Seq2[[]byte, []byte], o model.IterOptions, limit int) error {
	return r.counted(func() error {
		it := p.model.Iterator(o)
		defer it.Close()
		n := 0
		for key, value := range seq {
			if !it.Next() {
				return fmt.Errorf("loop shows %.40q, want its end", key)
			}
			want := it.Item()
			if o.KeysOnly {
				want.Value = ""
			}
			if string(key) != want.Key || string(value) != want.Value || o.KeysOnly && value != nil {
				return fmt.Errorf("loop shows %.40q = %.40q, want %v", key, value, want)
			}
			if n++; n == limit {
				return p.Tx.Err()
			}
		}
		if it.Next() {
			return fmt.Errorf("loop ended after %d, want %v", n, it.Item())
		}
		return p.Tx.Err()
	})
}

func opAll(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	r.say("t%d.All", p.name)
	return r.loop(p, p.Tx.All(), model.IterOptions{}, rng.IntN(50))
}

func opPrefix(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	prefix := r.keys.near(rng)
	prefix = prefix[:rng.IntN(len(prefix)+1)]
	r.say("t%d.Prefix(%.40q)", p.name, prefix)
	return r.loop(p, p.Tx.Prefix([]byte(prefix)), model.IterOptions{Prefix: prefix}, rng.IntN(50))
}

func opLoop(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	o := randomIterOptions(r, rng)
	o.AllVersions = false
	r.say("t%d.Loop(lower %.40q upper %.40q prefix %.40q reverse %v keys %v since %d)",
		p.name, o.Lower, o.Upper, o.Prefix, o.Reverse, o.KeysOnly, o.Since)
	return r.loop(p, p.Tx.Loop(o), modelOptions(o), rng.IntN(50))
}

func opRange(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	lo, hi := r.keys.near(rng), r.keys.near(rng)
	if lo > hi && rng.IntN(8) != 0 {
		lo, hi = hi, lo
	}
	o := model.IterOptions{Lower: lo, Upper: hi, Bounded: true}
	upper := []byte(hi)
	if rng.IntN(5) == 0 {
		upper, o.Bounded = nil, false
	}
	r.say("t%d.Range(%.40q, %.40q)", p.name, lo, upper)
	return r.loop(p, p.Tx.Range([]byte(lo), upper), o, rng.IntN(50))
}

func opView(r *Run, rng *rand.Rand) error {
	return r.DB.View(func(tx stoat.Txn) error {
		p, err := r.adopt(tx, false)
		if err != nil {
			return err
		}
		for range rng.IntN(5) {
			if err := r.get(p, r.keys.near(rng)); err != nil {
				return err
			}
		}
		return r.scan(p, randomIterOptions(r, rng), rng.IntN(30))
	})
}

// opOldSnapshot reads the whole snapshot of the longest open transaction.
func opOldSnapshot(r *Run, rng *rand.Rand) error {
	if len(r.txns) == 0 {
		return nil
	}
	p := r.txns[0]
	for i := range 2 {
		o := stoat.IterOptions{Reverse: i == 1, KeysOnly: rng.IntN(2) == 0}
		if err := r.scan(p, o, 1<<30); err != nil {
			return err
		}
	}
	return nil
}
