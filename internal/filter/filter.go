// Package filter tells of keys that are not in a set, from few bits for each that
// is: so few that the processor keeps them near, where an index of the same keys
// would have to be waited for.
package filter

import (
	"math/bits"
	"sync"
)

// A Filter is a set of hashes that may seem to hold others. Each hash has four
// bits of one word, so that to ask is one access to memory. Nil holds everything.
type Filter []uint64

// bitsPerKey makes a filter hold about one in a hundred of the hashes that it was
// not made of.
const bitsPerKey = 12

// May reports whether the hash may be one of those that f was made of.
func (f Filter) May(hash uint64) bool {
	if len(f) == 0 {
		return true
	}
	i, m := f.place(hash)
	return f[i]&m == m
}

// Bytes is how much memory f takes.
func (f Filter) Bytes() int64 { return int64(len(f)) * 8 }

// place returns the word of a hash, by its high end, and its bits there, by the low.
func (f Filter) place(hash uint64) (i, mask uint64) {
	i, _ = bits.Mul64(hash, uint64(len(f)))
	return i, 1<<(hash&63) | 1<<(hash>>6&63) | 1<<(hash>>12&63) | 1<<(hash>>18&63)
}

// A Builder makes a filter. Many goroutines may use it.
type Builder struct {
	mu  sync.Mutex
	all Filter
}

// NewBuilder returns a builder of a filter for so many keys.
func NewBuilder(keys uint64) *Builder {
	return &Builder{all: make(Filter, keys*bitsPerKey/64+1)}
}

// Add adds hashes, which are base.Hash of keys.
func (b *Builder) Add(hashes []uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range hashes {
		i, m := b.all.place(h)
		b.all[i] |= m
	}
}

// Filter returns the filter of all that was added, to which nothing may be added
// any more.
func (b *Builder) Filter() Filter { return b.all }
