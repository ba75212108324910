package cache

import (
	"math"
	"math/bits"
)

const (
	// BlockMax is the length in bytes of the longest block that the cache keeps.
	// Longer blocks hold few values, so a reader decodes such a block for each
	// value.
	BlockMax = 16 << 10

	// The cache is divided into shards, so that readers seldom wait for each
	// other. Each shard has at least shardSizeMin bytes; there are at most
	// shardsMax.
	shardsMax    = 16
	shardSizeMin = 128 << 10
)

// A Cache keeps blocks. Many goroutines may use it at once. A nil Cache is
// always empty.
type Cache struct{ shards []shard }

// New returns an empty cache of at most size bytes. It allocates when blocks
// arrive. Close frees the memory.
func New(size int64) *Cache {
	n := min(max(size/shardSizeMin, 1), shardsMax)
	c := &Cache{shards: make([]shard, n)}
	for i := range c.shards {
		// The index stores offsets in a shard as 32 bits, and sizes must fit an
		// int.
		c.shards[i].size = int(min(max(size/n, shardSizeMin), math.MaxInt32)) &^ (align - 1)
	}
	return c
}

// An id names a block by a number of its table, which no other table has, and its
// place in the table.
type id struct{ table, block uint64 }

func (c *Cache) shard(k id) *shard {
	h := (k.table*0x9e3779b97f4a7c15 ^ k.block) * 0xbf58476d1ce4e5b9
	hi, _ := bits.Mul64(h, uint64(len(c.shards)))
	return &c.shards[hi]
}

// Read fills dst from the block, beginning at offset from. It reports false if
// the cache does not have the block.
func (c *Cache) Read(dst []byte, table, block uint64, from int) bool {
	if c == nil {
		return false
	}
	k := id{table, block}
	return c.shard(k).read(dst, k, from)
}

// Put keeps a copy of a block. It does nothing if the block is too long or
// already present. A block never changes.
func (c *Cache) Put(table, block uint64, data []byte) {
	if c == nil || len(data) > BlockMax {
		return
	}
	k := id{table, block}
	c.shard(k).put(k, data)
}

// Stats describe the contents and the use of a cache.
type Stats struct {
	// Bytes is the memory that the cache takes.
	Bytes int64
	// Hits and Misses count reads.
	Hits, Misses uint64
}

// Stats returns the sums over all shards.
func (c *Cache) Stats() (s Stats) {
	if c == nil {
		return s
	}
	for i := range c.shards {
		c.shards[i].addTo(&s)
	}
	return s
}

// Close frees the memory. The cache stays empty after that.
func (c *Cache) Close() {
	if c == nil {
		return
	}
	for i := range c.shards {
		c.shards[i].close()
	}
}
