package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// A opKind is one kind of operation. Weights say how often it is drawn.
type opKind struct {
	name   string
	weight int
	do     func(r *Run, rng *rand.Rand) error
}

var opKinds = slices.Concat([]opKind{
	{"begin read-write", 30, func(r *Run, rng *rand.Rand) error { return opBegin(r, true) }},
	{"begin read-only", 10, func(r *Run, rng *rand.Rand) error { return opBegin(r, false) }},
	{"commit", 40, commitOp(0)},
	{"commit synced", 15, commitOp(stoat.Synced)},
	{"commit buffered", 15, commitOp(stoat.Buffered)},
	{"commit async", 15, opCommitAsync},
	{"await async", 8, opAwait},
	{"discard", 8, opDiscard},
	{"update", 30, opUpdate},
	{"update that gives up", 5, opUpdateFails},
	{"update of a cancelled context", 2, opCancelled},
	{"two readers of each other's writes", 10, opSkew},

	{"set", 60, opSet},
	{"set empty", 8, setOp(func(rng *rand.Rand, v *model.Version) { v.Value = "" })},
	{"set large", 8, setOp(func(rng *rand.Rand, v *model.Version) { v.Value = strings.Repeat(v.Value, 200) })},
	{"set with user byte", 8, setOp(func(rng *rand.Rand, v *model.Version) { v.User = byte(rng.Uint32()) })},
	{"set that expires at", 8, opExpiresAt},
	{"set with a time to live", 15, opTTL},
	{"delete", 30, opDelete},
	{"delete what an iterator shows", 4, opDeleteShown},
	{"delete a range", 12, opDeleteRange},
	{"merge", 50, opMerge},
	{"merge many into few keys", 8, opMergeMany},
	{"renew", 25, opRenew},
	{"step over an own value that expires", 10, opStepOverOwn},
	{"reopen without merge functions", 1, opUnregistered},
	{"drop a prefix", 1, opDropPrefix},
	{"set many", 6, opSetMany},
	{"transaction larger than a memtable", 1, opHuge},
	{"fill a memtable", 6, opFill},
	{"wait for the flushes", 4, opWaitForFlushes},

	{"clock forward", 10, opClockForward},
	{"clock back", 3, opClockBack},
	{"sync", 6, opSync},
	{"stats", 2, opStats},
	{"reopen", 2, OpReopen},
	{"kill", 2, opKill},
	{"power cut", 4, OpPowerCut},
	{"refused calls", 4, opRefused},
	{"verify all", 2, opVerify},
}, batchKinds, snapshotKinds, readKinds, iteratorKinds, queueKinds, valueKinds, spaceKinds, ingestKinds)

// txn returns an open transaction, or begins one. A run holds at most six.
func (r *Run) txn(rng *rand.Rand, write bool) (*Pair, error) {
	var fitting []*Pair
	for _, p := range r.txns {
		if p.write || !write {
			fitting = append(fitting, p)
		}
	}
	if len(fitting) == 0 {
		return r.Begin(write)
	}
	return fitting[rng.IntN(len(fitting))], nil
}

func opBegin(r *Run, write bool) error {
	if len(r.txns) >= 6 {
		return nil
	}
	_, err := r.Begin(write)
	return err
}

func commitOp(d stoat.Durability) func(*Run, *rand.Rand) error {
	return func(r *Run, rng *rand.Rand) error {
		p, err := r.txn(rng, true)
		if err != nil {
			return err
		}
		return r.commit(p, d)
	}
}

func opCommitAsync(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	r.Forget(p)
	a := &asyncCommit{done: make(chan error, 1)}
	seq, ok := p.model.CommitAt(r.clock.Seen())
	a.seq, a.conflict = seq, !ok
	d := []stoat.Durability{stoat.Synced, stoat.Buffered}[rng.IntN(2)]
	r.say("t%d.CommitAsync(%d): commit %d, conflict %v", p.name, d, seq, !ok)
	p.Tx.CommitAsync(func(version uint64, err error) {
		a.version = version
		a.done <- err
	}, stoat.WithDurability(d))
	r.asyncs = append(r.asyncs, a)
	return nil
}

func opAwait(r *Run, rng *rand.Rand) error {
	if len(r.asyncs) == 0 {
		return nil
	}
	i := rng.IntN(len(r.asyncs))
	a := r.asyncs[i]
	r.asyncs = append(r.asyncs[:i], r.asyncs[i+1:]...)
	return r.await(a)
}

func opDiscard(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	r.say("t%d.Discard", p.name)
	r.Forget(p)
	p.Tx.Discard()
	p.Tx.Discard()
	if _, err := p.Tx.Get([]byte("k")); !errors.Is(err, stoat.ErrTxnDone) {
		return fmt.Errorf("get after Discard: %v, want ErrTxnDone", err)
	}
	if err := p.Tx.Commit(); !errors.Is(err, stoat.ErrTxnDone) {
		return fmt.Errorf("commit after Discard: %v, want ErrTxnDone", err)
	}
	return nil
}

// opUpdate reads and writes in one closure, with nothing open beside it.
func opUpdate(r *Run, rng *rand.Rand) error {
	var p *Pair
	var seq uint64
	ok := true
	err := r.DB.Update(func(tx stoat.Txn) (err error) {
		if p, err = r.adopt(tx, true); err != nil {
			return err
		}
		for range 1 + rng.IntN(4) {
			switch rng.IntN(3) {
			case 0:
				err = r.get(p, r.keys.near(rng))
			case 1:
				err = r.Write(p, r.keys.pick(rng), model.Version{Deleted: true})
			default:
				err = r.Write(p, r.keys.pick(rng), r.value(rng))
			}
			if err != nil {
				return err
			}
		}
		seq, ok = p.model.CommitAt(r.clock.Seen())
		r.say("t%d commits %d, conflict %v", p.name, seq, !ok)
		return nil
	})
	if p == nil {
		return err
	}
	return r.committed(err, p.Tx.CommitVersion(), seq, ok, r.Opts.Durability)
}

var errGivenUp = errors.New("given up")

func opUpdateFails(r *Run, rng *rand.Rand) error {
	err := r.DB.Update(func(tx stoat.Txn) error {
		if err := r.in(tx).Set([]byte(r.keys.pick(rng)), []byte("never seen")); err != nil {
			return err
		}
		return errGivenUp
	})
	if err != errGivenUp {
		return fmt.Errorf("update: %v, want the error of the function", err)
	}
	return nil
}

func opCancelled(r *Run, rng *rand.Rand) error {
	ctx, cancel := context.WithCancel(context.Background())
	err := r.DB.UpdateContext(ctx, func(tx stoat.Txn) error {
		if err := r.in(tx).Set([]byte(r.keys.pick(rng)), []byte("never seen")); err != nil {
			return err
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("update: %v, want context.Canceled", err)
	}
	if _, err := r.DB.BeginContext(ctx, stoat.ReadOnly); !errors.Is(err, context.Canceled) {
		return fmt.Errorf("begin: %v, want context.Canceled", err)
	}
	return nil
}

// opSkew runs two transactions that each read what the other writes: the
// second to commit must fail.
func opSkew(r *Run, rng *rand.Rand) error {
	a, b := r.keys.pick(rng), r.keys.pick(rng)
	for _, keys := range [][2]string{{a, b}, {b, a}} {
		p, err := r.Begin(true)
		if err != nil {
			return err
		}
		if rng.IntN(2) == 0 {
			err = r.get(p, keys[0])
		} else {
			err = r.scan(p, stoat.IterOptions{Lower: []byte(keys[0]), Reverse: rng.IntN(2) == 0}, 1+rng.IntN(3))
		}
		if err == nil {
			err = r.Write(p, keys[1], r.value(rng))
		}
		if err != nil {
			return err
		}
	}
	for _, p := range append([]*Pair(nil), r.txns[len(r.txns)-2:]...) {
		if err := r.commit(p, 0); err != nil {
			return err
		}
	}
	return nil
}

// value makes a value that no other write has.
func (r *Run) value(rng *rand.Rand) model.Version {
	r.values++
	return model.Version{Value: fmt.Sprintf("v%d.%s", r.values, testkit.Filled(rng.IntN(r.valueSize(rng))))}
}

// valueSize draws the size below which a value stays. Most are small, so that
// there are many; the others fill memtables.
func (r *Run) valueSize(rng *rand.Rand) int {
	if rng.IntN(3) == 0 {
		return r.large
	}
	return 30
}

// Write sets or deletes a key on both sides.
func (r *Run) Write(p *Pair, key string, v model.Version) error {
	if v.Deleted {
		r.say("t%d.Delete(%.40q)", p.name, key)
	} else {
		r.say("t%d.Set(%.40q, %.20q.. %d bytes, until %d)", p.name, key, v.Value, len(v.Value), v.ExpiresAt)
	}
	r.Work.calls++
	p.model.Write(key, v)
	return testkit.Put(p.Tx, model.Write{Key: key, Version: v})
}

func opSet(r *Run, rng *rand.Rand) error {
	return setOp(func(*rand.Rand, *model.Version) {})(r, rng)
}

func setOp(change func(*rand.Rand, *model.Version)) func(*Run, *rand.Rand) error {
	return func(r *Run, rng *rand.Rand) error {
		p, err := r.txn(rng, true)
		if err != nil {
			return err
		}
		v := r.value(rng)
		change(rng, &v)
		return r.Write(p, r.keys.pick(rng), v)
	}
}

func opExpiresAt(r *Run, rng *rand.Rand) error {
	now := r.clock.Seen()
	return setOp(func(rng *rand.Rand, v *model.Version) {
		v.ExpiresAt = now + uint64(rng.IntN(40)) - 10
	})(r, rng)
}

func opTTL(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	// Commits in the background would ask the clock too.
	if err := r.settle(); err != nil {
		return err
	}
	key, v := r.keys.pick(rng), r.value(rng)
	ttl := time.Duration(rng.Int64N(int64(30 * time.Millisecond)))
	v.ExpiresAt = r.clock.Seen() + uint64((ttl+time.Millisecond-1)/time.Millisecond)
	v.User = byte(rng.IntN(2))
	p.model.Write(key, v)
	r.say("t%d.Set(%.40q, %q, TTL(%v))", p.name, key, v.Value, ttl)
	return p.Tx.Set([]byte(key), []byte(v.Value), stoat.UserMeta(v.User), stoat.TTL(ttl))
}

func opDelete(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	return r.Write(p, r.keys.near(rng), model.Version{Deleted: true})
}

// opDeleteShown deletes what an iterator shows, while it shows it.
func opDeleteShown(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	it := r.iterator(p, randomIterOptions(r, rng))
	defer it.close()
	for range 1 + rng.IntN(20) {
		if ok, err := r.step(it, nextStep, ""); !ok || err != nil {
			return err
		}
		key := it.model.Item().Key
		if key == timeKey {
			continue
		}
		if err := r.Write(p, key, model.Version{Deleted: true}); err != nil {
			return err
		}
	}
	return nil
}

func opSetMany(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, true)
	if err != nil {
		return err
	}
	for range rng.IntN(200) {
		if err := r.Write(p, r.keys.pick(rng), r.value(rng)); err != nil {
			return err
		}
	}
	return nil
}

// opHuge commits more than the smallest memtable holds, over and over the
// same keys in part.
func opHuge(r *Run, rng *rand.Rand) error {
	p, err := r.Begin(true)
	if err != nil {
		return err
	}
	for p.model.PendingSize() < 70<<10 {
		v := r.value(rng)
		v.Value = strings.Repeat(v.Value, 1+rng.IntN(1<<12/len(v.Value)))
		if err := r.Write(p, r.keys.near(rng)+fmt.Sprint(rng.IntN(100)), v); err != nil {
			return err
		}
	}
	return r.commit(p, 0)
}

func opSync(r *Run, _ *rand.Rand) error {
	r.say("sync at %d", r.known)
	known := r.known
	if err := r.DB.Sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	r.durable = max(r.durable, known)
	return nil
}

func opStats(r *Run, _ *rand.Rand) error {
	_ = r.DB.Stats()
	return nil
}

func opRefused(r *Run, rng *rand.Rand) error {
	p, err := r.txn(rng, false)
	if err != nil {
		return err
	}
	writing := func(err error) error {
		if !p.write {
			return stoat.ErrReadOnly
		}
		return err
	}
	long := make([]byte, stoat.MaxKeySize+1)
	_, getEmpty := p.Tx.Get(nil)
	_, getLong := p.Tx.Get(long)
	for _, c := range []struct{ got, want error }{
		{p.Tx.Set(nil, []byte("x")), writing(stoat.ErrEmptyKey)},
		{p.Tx.Set(long, nil), writing(stoat.ErrKeyTooLarge)},
		{p.Tx.Delete([]byte{}), writing(stoat.ErrEmptyKey)},
		{p.Tx.Delete(long), writing(stoat.ErrKeyTooLarge)},
		{getEmpty, stoat.ErrEmptyKey},
		{getLong, stoat.ErrKeyTooLarge},
	} {
		if !errors.Is(c.got, c.want) {
			return fmt.Errorf("t%d: got %v, want %v", p.name, c.got, c.want)
		}
	}
	if !p.write {
		r.Forget(p)
		if err := p.Tx.Commit(); err != nil || p.Tx.CommitVersion() != 0 {
			return fmt.Errorf("commit of a read-only transaction: %v, version %d", err, p.Tx.CommitVersion())
		}
	}
	return nil
}

func opVerify(r *Run, _ *rand.Rand) error {
	r.say("verify at %d to %d", r.known, r.Model.Last())
	if err := r.settle(); err != nil {
		return err
	}
	return r.Verify()
}
