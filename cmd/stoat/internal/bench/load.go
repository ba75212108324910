package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stoatdb/stoat"
)

// load fills the database in batches. Each writer takes the next batch when it is
// free.
func (b *Bench) load(ctx context.Context) error {
	var next atomic.Int64 // the first key of the next batch
	keys := int64(b.cfg.Keys)
	written, counted := deviceBytesWritten()

	name := fmt.Sprintf("load, %s, %s of %s", many(b.cfg.Writers, "writer"), b.kindOfBatch(), count(b.cfg.Batch))
	r, err := b.measure(ctx, job{
		name:        name,
		workers:     b.cfg.Writers,
		sampleEvery: 1,
		progress:    func() float64 { return float64(next.Load()) / float64(keys) },
		worker: func(int) op {
			return b.batchWriter(func() (from, to int64) {
				to = next.Add(int64(b.cfg.Batch))
				return to - int64(b.cfg.Batch), min(to, keys)
			})
		},
	})
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.db.Sync(); err != nil {
		return err
	}
	r.elapsed += time.Since(began) // the sync of buffered batches
	if now, ok := deviceBytesWritten(); ok && counted {
		b.report.loadWritten = now - written
	}
	b.noteLoadPeak()
	b.report.row(name, uint64(keys), r)
	return nil
}

// noteLoadPeak records the peak memory of the load at its end.
func (b *Bench) noteLoadPeak() {
	if b.memory != nil {
		b.report.loadPeak = b.memory.peak()
	}
}

// kindOfBatch names the durability of the load.
func (b *Bench) kindOfBatch() string {
	if b.cfg.Buffered {
		return "buffered batches"
	}
	return "synced batches"
}

// batchWriter returns the operation that writes one batch. take returns the keys
// of the batch.
func (b *Bench) batchWriter(take func() (from, to int64)) op {
	key := b.work.newKey()
	var value []byte
	return func() error {
		from, to := take()
		if from >= to {
			return errDone
		}
		return b.db.Update(func(tx stoat.Txn) error {
			for i := from; i < to; i++ {
				number := b.work.permute(uint64(i))
				version := b.oracle.next(number)
				b.work.putKey(key, number)
				value = b.work.value(value[:0], number, version)
				if err := tx.Set(key, value); err != nil {
					return err
				}
				b.oracle.versions[number] = version
			}
			return nil
		})
	}
}
