package memtable

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/rangedel"
)

// Transaction number s deletes the range of bucket s modulo the buckets, so
// readers know what covers a bucket at any moment.
func TestRangeDeletion_ReadersBesideAWriter(t *testing.T) {
	t.Parallel()
	const buckets, last = 16, 6000
	table := New(Options{ChunkSize: 1 << 10, TailMax: 100})
	var visible atomic.Uint64
	var wg sync.WaitGroup
	wg.Go(func() {
		txn := New(Options{})
		for seq := uint64(1); seq <= last; seq++ {
			b := seq % buckets
			mustSet(t, txn, write{key: fmt.Sprintf("%02d/a", b), value: fmt.Sprintf("%02d/c", b), meta: base.Meta{Kind: base.KindDeleteRange}})
			set(t, txn, fmt.Sprintf("%02d/b", b), "", 0)
			if err := table.AppendTable(txn, base.SeqNum(seq), nil); err != nil {
				t.Error(err)
				return
			}
			txn.Reset()
			visible.Store(seq)
		}
	})
	for run := range uint64(3) {
		wg.Go(func() {
			r := rng(t, run)
			var c rangedel.Cursor
			for visible.Load() < last {
				at := visible.Load()
				at -= r.Uint64N(min(at+1, 200))
				b := r.Uint64N(buckets)
				want := base.SeqNum(0)
				if at >= b {
					want = base.SeqNum(at - (at-b)%buckets)
				}
				key := fmt.Appendf(nil, "%02d/b", b)
				if got := table.Cover(key, base.SeqNum(at)); got != want {
					t.Errorf("Cover(%s, %d) = %d, want %d", key, at, got, want)
					return
				}
				c.Init(false)
				table.AddDeletions(&c, base.SeqNum(at))
				if got, _ := c.At(key); got != want {
					t.Errorf("the cursor at %d has %d for %s, want %d", at, got, key, want)
					return
				}
				if _, _, seq, ok := table.Get(key, hashOf(key), base.SeqNum(at)); ok != (want > 0) || seq != want {
					t.Errorf("Get(%s, %d) has version %d, want %d", key, at, seq, want)
					return
				}
			}
		})
	}
	wg.Wait()
}
