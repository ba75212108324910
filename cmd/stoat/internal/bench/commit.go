package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/stoatdb/stoat"
)

// commits measures durable transactions of one key.
func (b *Bench) commits(ctx context.Context) error {
	for _, workers := range []int{1, 16, 64} {
		name := fmt.Sprintf("durable commit of one key, %s", many(workers, "goroutine"))
		r, err := b.measure(ctx, job{
			name:        name,
			workers:     workers,
			limit:       b.cfg.CommitDuration,
			sampleEvery: 1,
			worker:      func(w int) op { return b.committer(uint64(w), uint64(workers)) },
		})
		if err != nil {
			return err
		}
		b.report.row(name, r.ops, r)
	}
	return nil
}

// committer returns the operation that writes the next version of one key.
// The w-th of n workers owns the keys whose number is w modulo n.
func (b *Bench) committer(w, n uint64) op {
	r := rand.New(rand.NewPCG(b.cfg.Seed, n<<32+w))
	owned := (b.work.space + n - 1 - w%n) / n
	key := b.work.newKey()
	var value []byte
	set := func(tx stoat.Txn) error { return tx.Set(key, value) }
	durable := stoat.WithDurability(stoat.Synced)
	return func() error {
		if owned == 0 {
			return errDone // there are fewer keys than workers
		}
		number := r.Uint64N(owned)*n + w
		version := b.oracle.next(number)
		b.work.putKey(key, number)
		value = b.work.value(value[:0], number, version)
		if err := b.db.Update(set, durable); err != nil {
			return err
		}
		b.oracle.versions[number] = version
		return nil
	}
}
