package model

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
)

// queueKinds are the operations that leave long runs of dead keys, as queues do.
var queueKinds = []opKind{
	{"a run of keys dies", 6, opDeadRun},
	{"pop the first keys", 4, opPop},
}

// RunQueues plays a life in which runs of keys die again and again.
func RunQueues(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 0x9e0e))
	shape := randomShape(seed)
	shape.Still = false
	often := []string{"a run of keys dies", "a run of keys dies", "a run of keys dies", "pop the first keys",
		"discard", "fill a memtable", "wait for the flushes"}
	ops := make([]randomOp, 40)
	for i := range ops {
		name := often[rng.IntN(len(often))]
		kind := slices.IndexFunc(opKinds, func(k opKind) bool { return k.name == name })
		ops[i] = randomOp{kind, rng.Uint64()}
	}
	_, _, err := runOps(shape, ops, nil)
	return err
}

// A deadRun is a run of neighbouring keys of one life.
type deadRun struct {
	r    *Run
	rng  *rand.Rand
	head string
	n    int
	old  []*Pair // snapshots that are open
}

func (d *deadRun) key(i int) string { return fmt.Sprintf("%s/%03d", d.head, i) }

// opDeadRun writes a run of keys and lets it die, key by key. Readers of several
// snapshots pass over it, before and after writes into it.
func opDeadRun(r *Run, rng *rand.Rand) error {
	d := &deadRun{r: r, rng: rng, head: r.keys.pick(rng), n: 30 + rng.IntN(60)}
	expires := uint64(0)
	if rng.IntN(3) == 0 {
		expires = r.clock.Seen() + 5
	}
	err := d.write(0, d.n, func(v *model.Version) { v.ExpiresAt = expires })
	if err == nil {
		err = d.snapshot()
	}
	if err == nil && rng.IntN(3) == 0 {
		if err = d.ownDeletions(); err == nil {
			err = d.scans()
		}
	}
	switch {
	case err != nil:
	case expires != 0 && !r.still:
		r.clock.Ms.Add(10)
		err = d.scans() // of the snapshot before that
	default:
		err = d.write(0, d.n, deleted)
	}
	for range 1 + rng.IntN(3) {
		if err == nil {
			err = d.scans()
		}
		if err == nil {
			err = d.disturb()
		}
	}
	if err == nil {
		err = d.scans()
	}
	return err
}

func deleted(v *model.Version) { *v = model.Version{Deleted: true} }

// write commits versions of the keys with numbers from to end (exclusive).
func (d *deadRun) write(from, end int, change func(v *model.Version)) error {
	p, err := d.r.Begin(true)
	if err != nil {
		return err
	}
	if err := d.writeIn(p, from, end, change); err != nil {
		return err
	}
	return d.r.commit(p, 0)
}

func (d *deadRun) writeIn(p *Pair, from, end int, change func(v *model.Version)) error {
	for i := from; i < end; i++ {
		v := d.r.value(d.rng)
		change(&v)
		if err := d.r.Write(p, d.key(i), v); err != nil {
			return err
		}
	}
	return nil
}

// snapshot opens a transaction that later scans use. It stays open for other operations.
func (d *deadRun) snapshot() error {
	if len(d.r.txns) >= 8 {
		return nil
	}
	p, err := d.r.Begin(false)
	if err == nil {
		d.old = append(d.old, p)
	}
	return err
}

// ownDeletions lets a transaction delete the run and pass over it, without a commit.
func (d *deadRun) ownDeletions() error {
	p, err := d.r.Begin(true)
	if err != nil {
		return err
	}
	d.r.Forget(p)
	defer p.Tx.Discard()
	if err := d.writeIn(p, 0, d.n, deleted); err != nil {
		return err
	}
	return d.scan(p)
}

// disturb writes into the run, or makes it longer. Keys may live there for a while.
func (d *deadRun) disturb() error {
	i := d.rng.IntN(d.n)
	if err := d.write(i, i+1, func(*model.Version) {}); err != nil {
		return err
	}
	if err := d.snapshot(); err != nil {
		return err
	}
	if d.rng.IntN(2) == 0 {
		return nil
	}
	if err := d.write(i, i+1, deleted); err != nil {
		return err
	}
	more := d.n + 20 + d.rng.IntN(40)
	defer func() { d.n = more }()
	return d.write(d.n, more, deleted)
}

// scans passes over the run in a new snapshot, and then in the older ones.
func (d *deadRun) scans() error {
	p, err := d.r.Begin(d.rng.IntN(2) == 0)
	if err != nil {
		return err
	}
	d.r.Forget(p)
	defer p.Tx.Discard()
	if err := d.scan(p); err != nil {
		return err
	}
	for _, old := range d.old {
		if err := d.scan(old); err != nil {
			return err
		}
	}
	return nil
}

func (d *deadRun) scan(p *Pair) error {
	o := stoat.IterOptions{Reverse: d.rng.IntN(3) == 0, KeysOnly: d.rng.IntN(3) == 0}
	limit := 2 * d.n
	switch d.rng.IntN(4) {
	case 0: // of the whole keyspace
	case 1:
		o.Lower, o.Upper = []byte(d.key(d.rng.IntN(d.n))), []byte(d.key(2*d.n))
	default:
		o.Prefix = []byte(d.head + "/")
		limit = 1 + d.rng.IntN(2*d.n)
	}
	return d.r.scan(p, o, limit)
}

// opPop pops keys at one end of the keyspace: each in a transaction that finds it.
func opPop(r *Run, rng *rand.Rand) error {
	reverse := rng.IntN(2) == 0
	for range 1 + rng.IntN(40) {
		p, err := r.Begin(true)
		if err != nil {
			return err
		}
		it := r.iterator(p, stoat.IterOptions{Reverse: reverse})
		ok, err := r.step(it, firstStep, "")
		for ok && err == nil && it.model.Item().Key == timeKey {
			ok, err = r.step(it, nextStep, "")
		}
		if err == nil && ok {
			err = r.Write(p, it.model.Item().Key, model.Version{Deleted: true})
		}
		it.close()
		if err == nil {
			err = r.commit(p, 0)
		}
		if err != nil || !ok {
			return err
		}
	}
	return nil
}
