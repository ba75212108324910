package cache

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stoatdb/stoat/internal/testing/noise"
)

// blockOf returns the contents that these tests give the block.
func blockOf(table, block uint64) []byte {
	rng := rand.New(rand.NewPCG(table, block))
	return noise.Bytes(rng, rng.IntN(6<<10))
}

// TestCache_HoldsWhatWasPutOrNothing reads and puts random blocks in a cache
// that is much too small for them.
func TestCache_HoldsWhatWasPutOrNothing(t *testing.T) {
	t.Parallel()
	c := New(256 << 10)
	defer c.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	reads, hits := 20_000, 0
	if testing.Short() {
		reads /= 4
	}
	for range reads {
		table, block := rng.Uint64N(3), uint64(rng.ExpFloat64()*60)
		want := blockOf(table, block)
		from := rng.IntN(len(want) + 1)
		to := from + rng.IntN(len(want)-from+1)
		got := make([]byte, to-from)
		if !c.Read(got, table, block, from) {
			c.Put(table, block, want)
			continue
		}
		hits++
		if !bytes.Equal(got, want[from:to]) {
			t.Fatalf("block %d of table %d, %d to %d: something else", block, table, from, to)
		}
		if c.Read(make([]byte, len(want)+1), table, block, 0) {
			t.Fatalf("block %d of table %d has more bytes than were put", block, table)
		}
	}
	s := c.Stats()
	if s.Bytes > 256<<10 || s.Bytes < 200<<10 {
		t.Errorf("%d bytes are held, want no more than 256 KiB, and most of them", s.Bytes)
	}
	if hits < reads/7 {
		t.Errorf("%d hits of %d reads", hits, reads)
	}
}

func TestCache_ABlockThatIsReadStays(t *testing.T) {
	t.Parallel()
	c := New(shardSizeMin)
	defer c.Close()
	hot := bytes.Repeat([]byte("hot"), 1000)
	c.Put(1, 0, hot)
	got := make([]byte, len(hot))
	for i := range uint64(1000) {
		if !c.Read(got, 1, 0, 0) || !bytes.Equal(got, hot) {
			t.Fatalf("gone after %d others", i)
		}
		c.Put(2, i, make([]byte, 3000))
	}
	if c.Read(got[:1], 2, 0, 0) {
		t.Error("a block that is never read stays, too")
	}
}

func TestCache_DoesNotKeepBlocksThatAreTooLong(t *testing.T) {
	t.Parallel()
	c := New(shardSizeMin)
	c.Put(1, 1, make([]byte, BlockMax+1))
	if c.Read(make([]byte, 1), 1, 1, 0) {
		t.Error("it is kept")
	}
	c.Put(1, 2, make([]byte, BlockMax))
	if !c.Read(make([]byte, 1), 1, 2, 0) {
		t.Error("a block of the greatest length is not kept")
	}
	c.Close()
	c.Put(1, 3, make([]byte, 10))
	if c.Read(make([]byte, 1), 1, 3, 0) || c.Stats().Bytes != 0 {
		t.Error("a closed cache holds something")
	}
	var none *Cache
	none.Put(1, 1, nil)
	if none.Read(nil, 1, 1, 0) || none.Stats() != (Stats{}) {
		t.Error("a nil cache holds something")
	}
	none.Close()
}

// The index stores offsets as 32 bits, and on 32-bit systems so is the length of
// a slice.
func TestCache_LargestShardsKeepTo32Bits(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 1, shardSizeMin, 32 << 20, shardsMax<<31 - 1, shardsMax << 31, 1 << 40, math.MaxInt64} {
		c := New(size)
		for i := range c.shards {
			if n := c.shards[i].size; n <= 0 || n > math.MaxInt32 || n%align != 0 {
				t.Errorf("a cache of %d bytes: shard %d has %d", size, i, n)
			}
		}
	}
}

func TestCache_ManyGoroutines(t *testing.T) {
	t.Parallel()
	c := New(512 << 10)
	defer c.Close()
	var all sync.WaitGroup
	for g := range uint64(4) {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(g, 1))
			var data [2000]byte
			var got [16]byte
			for range 5_000 {
				block := rng.Uint64N(600)
				if c.Read(got[:], 1, block, 1984) {
					if n := binary.LittleEndian.Uint64(got[8:]); n != block {
						t.Errorf("block %d ends like block %d", block, n)
						return
					}
					continue
				}
				binary.LittleEndian.PutUint64(data[1992:], block)
				c.Put(1, block, data[:])
			}
		})
	}
	all.Wait()
}

func BenchmarkRead(b *testing.B) {
	c := New(32 << 20)
	defer c.Close()
	for i := range uint64(4000) {
		c.Put(1, i, make([]byte, 4200))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	var got [128]byte
	b.ReportAllocs()
	for b.Loop() {
		if !c.Read(got[:], 1, rng.Uint64N(4000), 300) {
			b.Fatal("gone")
		}
	}
}

func BenchmarkPut(b *testing.B) {
	c := New(4 << 20)
	defer c.Close()
	data := make([]byte, 4200)
	b.ReportAllocs()
	for i := uint64(0); b.Loop(); i++ {
		c.Put(1, i, data)
	}
}
