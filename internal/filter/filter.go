// Package filter is a Bloom filter that tells which keys are not in a set. It
// takes so few bits per key that it stays in the processor's caches. A lookup in
// an index of the same keys would wait for memory.
package filter

import (
	"math/bits"
	"sync"
)

// A Filter is a set of hashes with false positives. Each hash sets four bits of
// one word, so a lookup is one memory access. A nil Filter holds everything.
type Filter []uint64

// bitsPerKey gives about one false positive in a hundred lookups.
const bitsPerKey = 12

// May reports whether the set may contain the hash. False is certain.
func (f Filter) May(hash uint64) bool {
	if len(f) == 0 {
		return true
	}
	i, m := f.place(hash)
	return f[i]&m == m
}

// Bytes returns the memory that f takes.
func (f Filter) Bytes() int64 { return int64(len(f)) * 8 }

// place returns the word of a hash and its bits in that word. The word comes
// from the high bits of the hash, the mask from the low ones.
func (f Filter) place(hash uint64) (i, mask uint64) {
	i, _ = bits.Mul64(hash, uint64(len(f)))
	return i, 1<<(hash&63) | 1<<(hash>>6&63) | 1<<(hash>>12&63) | 1<<(hash>>18&63)
}

// A Builder builds a Filter. Many goroutines may use it at once.
type Builder struct {
	mu  sync.Mutex // guards the words of all during Add
	all Filter
}

// NewBuilder returns a Builder of a filter for the given number of keys.
func NewBuilder(keys uint64) *Builder {
	return &Builder{all: make(Filter, keys*bitsPerKey/64+1)}
}

// Add adds hashes. They are base.Hash of the keys.
func (b *Builder) Add(hashes []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range hashes {
		i, m := b.all.place(h)
		b.all[i] |= m
	}
}

// Filter returns the finished filter. The caller must not call Add after it.
func (b *Builder) Filter() Filter { return b.all }
