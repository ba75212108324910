package cache

import (
	"math"
	"math/bits"
)

const (
	// BlockMax is the greatest length of a block that is kept. Longer ones hold
	// few values, of which each is worth decoding for itself.
	BlockMax = 16 << 10

	// The memory is divided among shards, so that readers seldom wait for each
	// other: as many as leave each a useful size, and no more than shardsMax.
	shardsMax    = 16
	shardSizeMin = 128 << 10
)

// A Cache keeps blocks. Any number of goroutines may use one. A nil Cache is
// always empty.
type Cache struct{ shards []shard }

// New returns an empty cache of so many bytes at most. It takes memory when
// blocks arrive; Close gives it back.
func New(size int64) *Cache {
	n := min(max(size/shardSizeMin, 1), shardsMax)
	c := &Cache{shards: make([]shard, n)}
	for i := range c.shards {
		// Places in a shard have 32 bits, and sizes those of an int.
		c.shards[i].size = int(min(max(size/n, shardSizeMin), math.MaxInt32)) &^ (align - 1)
	}
	return c
}

// An id names a block: by the number of its table, which no other table ever
// has, and its place there.
type id struct{ table, block uint64 }

func (c *Cache) shard(k id) *shard {
	h := (k.table*0x9e3779b97f4a7c15 ^ k.block) * 0xbf58476d1ce4e5b9
	hi, _ := bits.Mul64(h, uint64(len(c.shards)))
	return &c.shards[hi]
}

// Read fills dst with what the block has from offset from on, and reports
// whether it was there.
func (c *Cache) Read(dst []byte, table, block uint64, from int) bool {
	if c == nil {
		return false
	}
	k := id{table, block}
	return c.shard(k).read(dst, k, from)
}

// Put keeps a copy of a block, which is never changed, unless it is too long or
// there already.
func (c *Cache) Put(table, block uint64, data []byte) {
	if c == nil || len(data) > BlockMax {
		return
	}
	k := id{table, block}
	c.shard(k).put(k, data)
}

// Stats say what a cache holds and how it is used.
type Stats struct {
	// Bytes is the memory it takes.
	Bytes int64
	// Hits and Misses count reads.
	Hits, Misses uint64
}

// Stats returns the sums of all shards.
func (c *Cache) Stats() (s Stats) {
	if c == nil {
		return s
	}
	for i := range c.shards {
		c.shards[i].addTo(&s)
	}
	return s
}

// Close gives the memory back. The cache stays empty from then on.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	for i := range c.shards {
		c.shards[i].close()
	}
}
