package workload

import "math/bits"

// A Population is a set of randomly drawn keys. It has as many uniform draws as
// key numbers, so about 63 % of the numbers exist.
type Population struct {
	Count  uint64 // key numbers, and draws
	Keys   Keys
	Values Values
	seed   uint64
}

// populationSeed makes every process draw the same keys.
const populationSeed = 20170514

// NewPopulation returns the population of count draws.
func NewPopulation(count uint64, values Values) Population {
	return Population{
		Count: count, Keys: NewKeys(values.Size), Values: values,
		seed: populationSeed + uint64(values.Size),
	}
}

// Draw returns the key number of the i-th draw.
func (p *Population) Draw(i uint64) uint64 { return scale(mix(p.seed+i*gamma), p.Count) }

// Present returns the set of numbers that the draws hit.
func (p *Population) Present() *Bitset {
	b := NewBitset(p.Count)
	for i := range p.Count {
		b.Set(p.Draw(i))
	}
	return b
}

// UserBytes returns the bytes of the keys and values of n writes.
func (p *Population) UserBytes(n uint64) float64 { return float64(n) * float64(KeySize+p.Values.Size) }

// A Permutation visits every number below a count once, in an order that
// looks random to a store.
type Permutation struct{ count, step, start uint64 }

// NewPermutation returns an order of the numbers below count, which is below
// 2^32.
func NewPermutation(count uint64) Permutation {
	// A step near the golden section of the count puts successive numbers far
	// apart.
	step := max(uint64(float64(count)*0.6180339887), 1)
	for gcd(step, count) != 1 {
		step++
	}
	return Permutation{count: count, step: step, start: count / 3}
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// At returns the i-th number.
func (p Permutation) At(i uint64) uint64 { return (p.start + i*p.step) % p.count }

// A Bitset is a set of numbers below its size.
type Bitset struct {
	words []uint64
	size  uint64
	count uint64
}

// NewBitset returns an empty set of numbers below size.
func NewBitset(size uint64) *Bitset {
	return &Bitset{words: make([]uint64, (size+63)/64), size: size}
}

// Full returns the set of all numbers below size.
func Full(size uint64) *Bitset {
	b := NewBitset(size)
	for i := range size {
		b.Set(i)
	}
	return b
}

// Set adds i.
func (b *Bitset) Set(i uint64) {
	if !b.Has(i) {
		b.words[i/64] |= 1 << (i % 64)
		b.count++
	}
}

// Has returns whether i is in the set.
func (b *Bitset) Has(i uint64) bool { return b.words[i/64]>>(i%64)&1 != 0 }

// Count returns how many numbers are in the set.
func (b *Bitset) Count() uint64 { return b.count }

// Next returns the smallest number of the set that is at least i, and false
// if there is none.
func (b *Bitset) Next(i uint64) (uint64, bool) {
	if i >= b.size {
		return 0, false
	}
	if rest := b.words[i/64] >> (i % 64); rest != 0 {
		return i + uint64(bits.TrailingZeros64(rest)), true
	}
	return b.firstFrom(i/64 + 1)
}

// firstFrom returns the smallest number of the set in the words from w on.
func (b *Bitset) firstFrom(w uint64) (uint64, bool) {
	for ; w < uint64(len(b.words)); w++ {
		if b.words[w] != 0 {
			return w*64 + uint64(bits.TrailingZeros64(b.words[w])), true
		}
	}
	return 0, false
}
