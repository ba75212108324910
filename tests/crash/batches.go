package crash

import (
	"fmt"
	"strings"

	"github.com/stoatdb/stoat"
	"github.com/stoatdb/stoat/internal/testing/model"
	"github.com/stoatdb/stoat/internal/testing/testkit"
)

// batchWorkloads commit batches in pieces.
var batchWorkloads = []workload{
	{"batches in pieces", testkit.LargeMemtable, func(r *crashRun) error { return batchesInPieces(r, 200, 15) }},
	{"batches in pieces larger than a memtable", testkit.SmallMemtable, func(r *crashRun) error { return batchesInPieces(r, 100<<10, 3000) }},
}

// batchesInPieces commits batches in pieces of a size, with values of about so many bytes.
// Some end with an empty piece, and some are given up.
func batchesInPieces(r *crashRun, size int64, value int) error {
	return testkit.Times(10, func(i int) error {
		var writes []model.Write
		for range 1 + r.rng.IntN(150) {
			writes = append(writes, testkit.SetKey(r.rng.IntN(90), testkit.RandomValue(r.rng, value)))
		}
		d, pieces := testkit.RandomDurability(r.rng), testkit.Pieces(size, writes)
		b := r.db.NewBatch(stoat.BatchOptions{Size: size, Pieces: true})
		if err := testkit.PutAll(b, writes); err != nil {
			return err
		}
		switch i % 4 {
		case 0: // a piece without writes, which fills it
			if err := b.DeleteRange([]byte(strings.Repeat("z", int(min(size, 60<<10)))), []byte("z")); err != nil {
				return err
			}
		case 1:
			b.Discard()
			d, pieces = stoat.Buffered, pieces[:len(pieces)-1]
		}
		if i%4 != 1 {
			if err := b.Commit(stoat.WithDurability(d)); err != nil {
				return err
			}
		}
		return r.recordPieces(pieces, b.CommitVersion(), d)
	})
}

// recordPieces notes the acknowledged pieces of a batch, the last with a version.
func (r *crashRun) recordPieces(pieces [][]model.Write, last uint64, d stoat.Durability) error {
	r.era.mu.Lock()
	seq := r.era.before.Last() + uint64(len(r.era.commits))
	for _, writes := range pieces {
		seq++
		r.era.commits[seq] = writes
	}
	r.era.mu.Unlock()
	if len(pieces) > 0 && last != seq {
		return fmt.Errorf("the last piece has version %d, want %d", last, seq)
	}
	if len(pieces) > 0 {
		r.acknowledged(seq, d)
	}
	return nil
}
