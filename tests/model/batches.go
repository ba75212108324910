package model

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// batchKinds are the operations with batches.
var batchKinds = []opKind{
	{"batch", 12, opBatch},
	{"batch with a piece that fails", 1, opFailedBatch},
}

// A batchPair is a batch of the database and the transactions that its pieces are to the
// model.
type batchPair struct {
	r     *Run
	b, in stoat.Batch // in is b in the keyspace of the run
	o     stoat.BatchOptions
	piece *model.Txn
	used  int64
	last  uint64 // version of the last piece that was handed over
}

func (r *Run) newBatch(o stoat.BatchOptions) *batchPair {
	p := &batchPair{r: r, b: r.DB.NewBatch(o), o: o}
	p.in = p.b.In(r.spaces.home)
	p.begin()
	return p
}

func (p *batchPair) begin() {
	p.piece, p.used = p.r.Model.Begin(p.r.Model.Last(), true), 0
	p.piece.NowMs = p.r.clock.Seen()
}

// rangeOverhead is what a range deletion adds to the size of a batch beside the bytes of its
// bounds and of any write.
const rangeOverhead = 700

// takes notes a write with so many bytes of key and value.
func (p *batchPair) takes(bytes int) {
	p.r.Work.calls++
	size := int64(bytes) + 32
	if p.used > 0 && p.used+size > p.o.Size {
		p.handOver()
		p.begin()
	}
	p.used += size
}

// handOver commits the piece in the model.
func (p *batchPair) handOver() {
	if seq, _ := p.piece.CommitAt(p.r.clock.Seen()); seq != 0 {
		p.last = seq
	}
}

// write writes something to both sides.
func (p *batchPair) write(rng *rand.Rand) error {
	r := p.r
	key := r.keys.pick(rng)
	switch n := rng.IntN(10); {
	case n == 0:
		lo, hi := r.randomRange(rng)
		p.takes(len(lo) + len(hi) + rangeOverhead)
		modelRange(p.piece, lo, hi)
		return p.in.DeleteRange(lo, hi)
	case n == 1:
		p.takes(len(key))
		p.piece.Write(key, model.Version{Deleted: true})
		return p.in.Delete([]byte(key))
	case n < 4 && r.still: // otherwise nothing tells which time the piece has
		operand := r.operand(rng)
		p.takes(len(key) + len(operand))
		p.piece.Step(key, model.Step{Operand: operand, Tail: r.tail})
		return p.in.Merge([]byte(key), []byte(operand))
	}
	v := r.value(rng)
	if rng.IntN(4) == 0 {
		v.User, v.ExpiresAt = byte(rng.Uint32()), r.clock.Seen()+uint64(rng.IntN(1000))
	}
	p.takes(len(key) + len(v.Value))
	p.piece.Write(key, v)
	return testkit.Put(p.in, model.Write{Key: key, Version: v})
}

// opBatch commits a batch, in one piece or many, or gives it up.
func opBatch(r *Run, rng *rand.Rand) error {
	if err := r.settle(); err != nil {
		return err
	}
	o := stoat.BatchOptions{Size: 1 << 30}
	if rng.IntN(3) > 0 {
		o = stoat.BatchOptions{Size: int64(100 + rng.IntN(5000)), Pieces: true}
	}
	p := r.newBatch(o)
	defer p.b.Discard()
	for range 1 + rng.IntN(60) {
		if err := p.write(rng); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
	}
	d := []stoat.Durability{0, stoat.Synced, stoat.Buffered}[rng.IntN(3)]
	r.say("batch of %d bytes a piece, pieces %v, committed with %d", o.Size, o.Pieces, d)
	if rng.IntN(5) == 0 {
		p.b.Discard()
		return r.pieces(p, stoat.Buffered)
	}
	p.handOver()
	if err := p.b.Commit(stoat.WithDurability(d)); err != nil {
		return fmt.Errorf("commit of a batch: %w", err)
	}
	if d == 0 {
		d = r.Opts.Durability
	}
	return r.pieces(p, d)
}

// pieces compares the outcome of a batch with the model, and notes it.
func (r *Run) pieces(p *batchPair, d stoat.Durability) error {
	if got := p.b.CommitVersion(); got != p.last {
		return fmt.Errorf("the last piece of a batch has version %d, want %d", got, p.last)
	}
	r.known = max(r.known, p.last)
	if d == stoat.Synced {
		r.durable = max(r.durable, p.last)
	}
	return nil
}

// opFailedBatch lets a piece fail: no later piece may be committed.
func opFailedBatch(r *Run, rng *rand.Rand) error {
	if !r.spaced {
		return nil
	}
	if err := r.settle(); err != nil {
		return err
	}
	doomed, err := r.DB.Keyspace("doomed", nil)
	if err != nil {
		return err
	}
	p := r.newBatch(stoat.BatchOptions{Size: int64(100 + rng.IntN(200)), Pieces: true})
	defer p.b.Discard()
	for range rng.IntN(20) {
		if err := p.write(rng); err != nil {
			return fmt.Errorf("batch: %w", err)
		}
	}
	p.handOver()
	// The key alone fills a piece, so it begins one.
	if err := p.b.In(doomed).Set([]byte(strings.Repeat("k", 400)), nil); err != nil {
		return err
	}
	if err := r.DB.DropKeyspace("doomed"); err != nil {
		return err
	}
	r.say("batch whose piece %d fails", p.last+1)
	r.noteElsewhere(true)
	for i := 0; i < 10 && err == nil; i++ {
		err = p.in.Set([]byte(strings.Repeat("n", 400)), []byte("never seen"))
	}
	if err == nil {
		err = p.b.Commit()
	}
	if !errors.Is(err, stoat.ErrNoKeyspace) {
		return fmt.Errorf("a batch whose piece failed: %v, want ErrNoKeyspace", err)
	}
	if again := p.b.Commit(); again != err {
		return fmt.Errorf("commit after an error of a batch: %v, want %w", again, err)
	}
	return r.pieces(p, stoat.Buffered)
}
