package bench

import (
	"bytes"
	"context"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
)

// ctxEvery is the number of keys that a scan reads between two checks of its
// context.
const ctxEvery = 4096

// verify reads the whole database in order, and compares every key and every byte
// of every value with the correct ones.
func (b *Bench) verify(ctx context.Context) error {
	const name = "verify every byte of every value"
	want := b.oracle.totals(&b.work).keys
	var shown atomic.Int64
	stop := b.progress.watch(name, func() float64 { return float64(shown.Load()) / float64(want) })
	began := time.Now()
	seen, err := b.verifyAll(ctx, &shown)
	took := time.Since(began)
	stop()
	if err != nil {
		return err
	}
	if seen != want {
		return wrongf("a scan returned %d keys, want %d", seen, want)
	}
	b.verified += uint64(seen)
	b.report.verified(name, seen, took)
	return nil
}

// verifyAll returns the number of keys. It returns ErrWrong at the first wrong
// one.
func (b *Bench) verifyAll(ctx context.Context, shown *atomic.Int64) (seen int, err error) {
	err = b.db.View(func(tx stoat.Txn) error {
		var last []byte
		for key, value := range tx.All() {
			if bytes.Compare(key, last) <= 0 {
				return wrongf("a scan returned %q after %q", key, last)
			}
			last = append(last[:0], key...)
			number, err := b.work.number(key)
			if err != nil {
				return err
			}
			version := b.oracle.versions[number]
			if version == 0 {
				return wrongf("a scan returned %q, which was never written", key)
			}
			if err := b.work.checkAll(value, number, version); err != nil {
				return err
			}
			if seen++; seen%ctxEvery == 0 {
				shown.Store(int64(seen))
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
		return tx.Err()
	})
	return seen, err
}

// scans measures complete scans.
func (b *Bench) scans(ctx context.Context) error {
	want := b.oracle.totals(&b.work)
	for _, s := range []struct {
		name string
		o    stoat.IterOptions
	}{
		{"scan all with values", stoat.IterOptions{}},
		{"scan all, keys only", stoat.IterOptions{KeysOnly: true}},
		{"scan all with values, backwards", stoat.IterOptions{Reverse: true}},
		{"scan all, keys only, backwards", stoat.IterOptions{Reverse: true, KeysOnly: true}},
	} {
		r, err := b.measure(ctx, job{
			name:        s.name,
			workers:     1,
			limit:       b.cfg.ReadDuration,
			sampleEvery: 1,
			worker:      func(int) op { return func() error { return b.scan(ctx, s.o, want) } },
		})
		if err != nil {
			return err
		}
		b.checked += r.ops * uint64(want.keys)
		b.report.keysRow(s.name, r.ops*uint64(want.keys), r)
	}
	return nil
}

// scan reads all keys once. It compares only the sums of the keys and values, to
// measure little besides the database.
func (b *Bench) scan(ctx context.Context, o stoat.IterOptions, want totals) error {
	if o.KeysOnly {
		want.endsSum = 0
	}
	var got totals
	err := b.db.View(func(tx stoat.Txn) error {
		it := tx.Iterator(o)
		defer it.Close()
		for it.First(); it.Valid(); it.Next() {
			key := it.Key()
			if len(key) < digits {
				return wrongf("a scan returned %q, which was never written", key)
			}
			got.keySum += keyEnd(key)
			if !o.KeysOnly {
				got.endsSum += ends(it.Value())
			}
			if got.keys++; got.keys%ctxEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return it.Err()
	})
	if err == nil && got != want {
		err = wrongf("a scan (%+v) has the totals %+v, want %+v", o, got, want)
	}
	return err
}
