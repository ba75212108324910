package memtable

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

func TestTable_AnswersLikeTheModel(t *testing.T) {
	t.Parallel()
	for run, keys := range keyMakers {
		t.Run(keys.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			mem := newCounting()
			table := New(Options{Memory: mem, ChunkSize: 256 << r.IntN(8), SizeHint: r.IntN(100), TailMax: 1 + r.IntN(300)})
			pool := New(Options{Memory: mem, ChunkSize: 1 << 10, TailMax: 1 + r.IntN(40)})
			m := &model{}
			var its [2]Iter
			seq := base.SeqNum(0)
			for step := range 200 {
				seq += base.SeqNum(r.IntN(3)) / 2
				if step == 0 {
					seq = 1
				}
				if r.IntN(2) == 0 {
					k, v, meta := keys.make(r), randomValue(r), randomMeta(r)
					if err := table.Set(k, v, keys.hash(k), meta, seq); err != nil {
						t.Fatal(err)
					}
					m.set(k, v, meta, seq)
				} else {
					seq++
					txn := &model{pending: true}
					fillPending(t, r, pool, txn, keys, r.IntN(60))
					compareAll(t, r, pool, txn, keys, &its)
					if err := table.AppendTable(pool, seq, nil); err != nil {
						t.Fatal(err)
					}
					for _, v := range txn.newest() {
						m.set([]byte(v.key), []byte(v.value), v.meta, seq)
					}
					its[0].Close()
					its[1].Close()
					pool.Reset()
				}
				if step%10 == 0 {
					compareAll(t, r, table, m, keys, &its)
				}
			}
			compareAll(t, r, table, m, keys, &its)
			its[0].Close()
			its[1].Close()
			table.Release()
			pool.Release()
			if mem.held() != 0 {
				t.Fatalf("%d bytes are held after Release", mem.held())
			}
		})
	}
}

func fillPending(t *testing.T, r *rand.Rand, table *Table, m *model, keys keyMaker, n int) {
	t.Helper()
	for range n {
		k, v, meta := keys.make(r), randomValue(r), randomMeta(r)
		if err := table.Set(k, v, keys.hash(k), meta, 0); err != nil {
			t.Fatal(err)
		}
		m.set(k, v, meta, 0)
	}
}

func TestTable_StampedAnswersLikeTheModel(t *testing.T) {
	t.Parallel()
	for run, keys := range keyMakers {
		t.Run(keys.name, func(t *testing.T) {
			t.Parallel()
			r := rng(t, uint64(run))
			table := New(Options{ChunkSize: 1 << 10})
			m := &model{pending: true}
			var its [2]Iter
			for range 20 {
				fillPending(t, r, table, m, keys, r.IntN(100))
				compareAll(t, r, table, m, keys, &its)
			}
			table.Stamp(77)
			m.stamp = 77
			compareAll(t, r, table, m, keys, &its)
			if _, _, _, ok := table.Get([]byte(m.versions[0].key), keys.hash([]byte(m.versions[0].key)), 76); ok {
				t.Fatal("a snapshot before the stamp sees an entry")
			}
		})
	}
}
