package memtable

import (
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
)

// FuzzOperations decodes the input into operations on a table and on a
// transaction's table, and compares both with models.
func FuzzOperations(f *testing.F) {
	f.Add([]byte("set a few keys, commit them, look at them"))
	f.Add([]byte{0, 3, 1, 2, 3, 2, 0, 0, 1, 3, 1, 2, 3, 2, 3, 4})
	f.Add([]byte{1, 1, 9, 1, 1, 9, 1, 1, 9, 4, 2, 4, 0, 1, 9, 4})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 512 {
			return
		}
		next := func() byte {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return b
		}
		nextKey := func() []byte {
			n := min(1+int(next())%40, max(len(in), 1))
			key := append([]byte{next()}, in[:min(n-1, len(in))]...)
			in = in[min(n-1, len(in)):]
			return key
		}
		// Few hashes, so that keys collide.
		keys := keyMaker{
			make: func(r *rand.Rand) []byte { return []byte{byte(r.Uint32()), byte(r.Uint32())}[:1+r.IntN(2)] },
			hash: func(key []byte) uint64 { return uint64(len(key)%3) << 62 * uint64(key[0]%5) },
		}
		r := rand.New(rand.NewPCG(1, 2))
		mem := newCounting()
		table := New(Options{Memory: mem, ChunkSize: 256, TailMax: 1 + int(next()), SizeHint: int(next())})
		txn := New(Options{Memory: mem, ChunkSize: 256, Keep: 1 << 10, TailMax: 1 + int(next())})
		m, pending := &model{}, &model{pending: true}
		var its, txnIts [2]Iter
		seq := base.SeqNum(1)
		for len(in) > 0 {
			switch next() % 6 {
			case 0, 1:
				k, v := nextKey(), make([]byte, int(next())*4)
				meta := base.Meta{Kind: base.KindSet, User: next(), ExpiresAt: uint64(next() & 1)}
				if err := txn.Set(k, v, keys.hash(k), meta, 0); err != nil {
					t.Fatal(err)
				}
				pending.set(k, v, meta, 0)
			case 2:
				if err := table.AppendTable(txn, seq, nil); err != nil {
					t.Fatal(err)
				}
				for _, v := range pending.newest() {
					m.set([]byte(v.key), []byte(v.value), v.meta, seq)
				}
				seq++
				txnIts[0].Close()
				txnIts[1].Close()
				txn.Reset()
				pending = &model{pending: true}
			case 3:
				k, meta := nextKey(), base.Meta{Kind: base.KindDelete}
				if err := table.Set(k, nil, keys.hash(k), meta, seq); err != nil {
					t.Fatal(err)
				}
				m.set(k, nil, meta, seq)
				seq++
			case 4:
				compareAll(t, r, table, m, keys, &its)
			case 5:
				compareAll(t, r, txn, pending, keys, &txnIts)
			}
		}
		compareAll(t, r, table, m, keys, &its)
		compareAll(t, r, txn, pending, keys, &txnIts)
		table.Release()
		txn.Release()
		if mem.held() != 0 {
			t.Fatalf("%d bytes are held after Release", mem.held())
		}
	})
}
