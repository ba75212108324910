package workload

import (
	"math"
	"math/bits"
)

// mix is the finalizer of splitmix64, a bijection. Every bit of the result
// depends on every bit of x.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// gamma is the increment of a generator's state. It is odd, so that the state
// visits all 64-bit values.
const gamma = 0x9e3779b97f4a7c15

// A random is a generator for the measured loops. A number costs about a
// nanosecond.
type random struct{ state uint64 }

func newRandom(seed uint64) *random { return &random{state: mix(seed + gamma)} }

func (r *random) next() uint64 {
	r.state += gamma
	return mix(r.state)
}

// below returns a number in [0, n).
func (r *random) below(n uint64) uint64 { return scale(r.next(), n) }

// scale maps a uniform x of 64 bits to [0, n).
func scale(x, n uint64) uint64 {
	hi, _ := bits.Mul64(x, n)
	return hi
}

// A zipf draws ranks below n. The probability of rank r is proportional to
// 1/(r+1)^theta. The method is that of Gray and others ("Quickly generating
// billion-record synthetic databases", 1994), which YCSB also uses.
type zipf struct {
	n                uint64
	alpha, eta, zeta float64
	second           float64 // the bound below which rank 1 is drawn
}

// zipfTheta is the skew of YCSB.
const zipfTheta = 0.99

func newZipf(n uint64) *zipf {
	var zeta float64
	for i := range n {
		zeta += 1 / math.Pow(float64(i+1), zipfTheta)
	}
	zeta2 := 1 + math.Pow(0.5, zipfTheta)
	return &zipf{
		n:      n,
		alpha:  1 / (1 - zipfTheta),
		zeta:   zeta,
		eta:    (1 - math.Pow(2/float64(n), 1-zipfTheta)) / (1 - zeta2/zeta),
		second: zeta2,
	}
}

// rank draws a rank.
func (z *zipf) rank(r *random) uint64 {
	u := float64(r.next()>>11) / (1 << 53)
	uz := u * z.zeta
	switch {
	case uz < 1:
		return 0
	case uz < z.second:
		return 1
	}
	rank := uint64(float64(z.n) * math.Pow(z.eta*u-z.eta+1, z.alpha))
	return min(rank, z.n-1)
}

// key draws a key. Ranks are spread over the key space, so that popular keys are
// not neighbours.
func (z *zipf) key(r *random) uint64 { return scale(mix(z.rank(r)+gamma), z.n) }
