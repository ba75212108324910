package memtable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stoatdb/stoat/internal/base"
	"github.com/stoatdb/stoat/internal/iter"
)

// The benchmarks use keys of 22 bytes in random order and values of 128.

const benchKeys = 1 << 20

func benchKey(dst []byte, i uint64) []byte {
	return fmt.Appendf(dst[:0], "key-%018d", i*0x9e3779b97f4a7c15%1e18)
}

var benchValue = make([]byte, 128)

// benchTxn sets size keys in the table of a transaction: those of the numbers from from on.
func benchTxn(b testing.TB, txn *Table, from, size int) {
	var k [32]byte
	for i := from; i < from+size; i++ {
		key := benchKey(k[:], uint64(i))
		if err := txn.Set(key, benchValue, hashOf(key), base.Meta{Kind: base.KindSet}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

func txnOptions() Options { return Options{ChunkSize: 4 << 10, Keep: 512 << 10} }

// benchTable returns a table of n keys that came in batches of 1,000.
func benchTable(b testing.TB, n int) *Table {
	table := New(Options{Memory: offHeap{}, SizeHint: n})
	b.Cleanup(table.Release)
	txn := New(txnOptions())
	for i := 0; i < n; i += 1000 {
		benchTxn(b, txn, i, min(1000, n-i))
		if err := table.AppendTable(txn, base.SeqNum(i+1), nil); err != nil {
			b.Fatal(err)
		}
		txn.Reset()
	}
	return table
}

func BenchmarkGet(b *testing.B) {
	table := benchTable(b, benchKeys)
	for _, c := range []struct {
		name string
		base uint64
	}{{"hit", 0}, {"miss", benchKeys}} {
		b.Run(c.name, func(b *testing.B) {
			// Keys are made beforehand, some of them, so that making them
			// costs nothing here.
			r := rand.New(rand.NewPCG(1, 2))
			type probe struct {
				key  []byte
				hash uint64
			}
			probes := make([]probe, 1<<16)
			for i := range probes {
				k := benchKey(nil, c.base+r.Uint64N(benchKeys))
				probes[i] = probe{k, hashOf(k)}
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				p := &probes[i&(1<<16-1)]
				v, _, _, ok := table.Get(p.key, p.hash, base.SeqNumMax)
				if ok != (c.base == 0) || ok && len(v) != 128 {
					b.Fatal("wrong answer")
				}
			}
		})
	}
}

func BenchmarkAppendTable(b *testing.B) {
	for _, size := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			// Few enough that the transactions stay in the cache, as at commit.
			txns := make([]*Table, max(8000/size, 1))
			for i := range txns {
				txns[i] = New(Options{})
			}
			for done := 0; done < b.N; {
				b.StopTimer()
				table := New(Options{Memory: Slabs(offHeap{}), SizeHint: 400_000})
				for from := 0; from < 400_000 && done < b.N; from += len(txns) * size {
					b.StopTimer()
					for i, txn := range txns {
						txn.Reset()
						benchTxn(b, txn, from+i*size, size)
					}
					b.StartTimer()
					for i, txn := range txns {
						if err := table.AppendTable(txn, base.SeqNum(from+i+1), nil); err != nil {
							b.Fatal(err)
						}
						if done += size; from+i*size >= 400_000 || done >= b.N {
							break
						}
					}
				}
				b.StopTimer()
				table.Release()
				b.StartTimer()
			}
		})
	}
}

func BenchmarkTxnSet(b *testing.B) {
	keys := make([][]byte, 1000)
	hashes := make([]uint64, 1000)
	for i := range keys {
		keys[i] = benchKey(nil, uint64(i))
		hashes[i] = hashOf(keys[i])
	}
	txn := New(txnOptions())
	b.ReportAllocs()
	for i := range b.N {
		if i%1000 == 0 {
			txn.Reset()
		}
		if err := txn.Set(keys[i%1000], benchValue, hashes[i%1000], base.Meta{Kind: base.KindSet}, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTxnCycle is the life of a transaction with one write, of a new key or
// of an existing one.
func BenchmarkTxnCycle(b *testing.B) {
	const perTable = 400_000
	for _, different := range []int{perTable, 1000} {
		keys := make([][]byte, different)
		hashes := make([]uint64, different)
		for i := range keys {
			keys[i] = benchKey(nil, uint64(i))
			hashes[i] = hashOf(keys[i])
		}
		b.Run(fmt.Sprintf("keys=%d", different), func(b *testing.B) {
			txn := New(txnOptions())
			table := New(Options{Memory: Slabs(offHeap{}), SizeHint: different})
			b.ReportAllocs()
			for i := range b.N {
				if i%perTable == perTable-1 {
					b.StopTimer()
					table.Release()
					b.StartTimer()
				}
				j := i % different
				if err := txn.Set(keys[j], benchValue, hashes[j], base.Meta{Kind: base.KindSet}, 0); err != nil {
					b.Fatal(err)
				}
				if err := table.AppendTable(txn, base.SeqNum(i+1), nil); err != nil {
					b.Fatal(err)
				}
				txn.Reset()
			}
			b.StopTimer()
			table.Release()
		})
	}
}

func BenchmarkScan(b *testing.B) {
	for _, reverse := range []bool{false, true} {
		b.Run(fmt.Sprintf("reverse=%v", reverse), func(b *testing.B) {
			table := benchTable(b, benchKeys)
			var it Iter
			var batch iter.Batch
			for range 3 {
				it.Init(table, reverse)
			}
			it.Seek(nil)
			batch.Want = iter.BatchSize
			b.ReportAllocs()
			b.ResetTimer()
			for i := 0; i < b.N; i += batch.N {
				if err := it.Fill(&batch); err != nil {
					b.Fatal(err)
				}
				if batch.N == 0 {
					it.Seek(nil)
				}
			}
			it.Close()
		})
	}
}

func BenchmarkFirstInit(b *testing.B) {
	for _, n := range []int{1 << 14, 350_000, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				table := benchTable(b, n-1)
				b.StartTimer()
				var it Iter
				it.Init(table, false)
				b.StopTimer()
				b.ReportMetric(float64(len(it.set.runs)), "runs")
				it.Close()
				table.Release()
				b.StartTimer()
			}
		})
	}
}

func BenchmarkSeek10(b *testing.B) {
	table := benchTable(b, benchKeys)
	var it Iter
	var batch iter.Batch
	for range 3 {
		it.Init(table, false)
	}
	it.Close()
	r := rand.New(rand.NewPCG(1, 2))
	keys := make([][]byte, 1<<16)
	for i := range keys {
		keys[i] = benchKey(nil, r.Uint64N(benchKeys))
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		it.Init(table, false)
		it.Seek(keys[i&(1<<16-1)])
		batch.Want = 10
		if err := it.Fill(&batch); err != nil {
			b.Fatal(err)
		}
		if batch.N > 0 && len(batch.Entries[0].Key) != 22 {
			b.Fatal("wrong answer")
		}
		it.Close()
	}
}

// BenchmarkSeek10WhileWriting writes one key between two seeks.
func BenchmarkSeek10WhileWriting(b *testing.B) {
	table := benchTable(b, benchKeys/2)
	txn := New(txnOptions())
	var it Iter
	var batch iter.Batch
	r := rand.New(rand.NewPCG(1, 2))
	var k [32]byte
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		benchTxn(b, txn, benchKeys+i, 1)
		if err := table.AppendTable(txn, base.SeqNum(benchKeys+i), nil); err != nil {
			b.Fatal(err)
		}
		txn.Reset()
		it.Init(table, false)
		it.Seek(benchKey(k[:], r.Uint64N(benchKeys)))
		batch.Want = 10
		if err := it.Fill(&batch); err != nil {
			b.Fatal(err)
		}
		it.Close()
	}
}

// BenchmarkMemory is the yardstick for the other benchmarks. It measures one
// dependent memory access, over as much memory as a table takes.
func BenchmarkMemory(b *testing.B) {
	block, err := offHeap{}.Alloc(256 << 20)
	if err != nil {
		b.Fatal(err)
	}
	defer offHeap{}.Free(block)
	for i := 0; i < len(block); i += 64 {
		block[i] = byte(i >> 6)
	}
	x := uint64(1)
	b.ResetTimer()
	for range b.N {
		x = (x+uint64(block[x%uint64(len(block))&^63]))*0x9e3779b97f4a7c15 + 1
		x ^= x >> 29
	}
	if x == 0 {
		b.Log("unlikely")
	}
}

func BenchmarkTxnSetReset(b *testing.B) {
	key := benchKey(nil, 1)
	hash := hashOf(key)
	txn := New(txnOptions())
	b.ReportAllocs()
	for range b.N {
		if err := txn.Set(key, benchValue, hash, base.Meta{Kind: base.KindSet}, 0); err != nil {
			b.Fatal(err)
		}
		txn.Reset()
	}
}
