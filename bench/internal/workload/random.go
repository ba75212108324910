package workload

import (
	"math"
	"math/bits"
)

// mix scrambles x so that every bit of the result depends on every bit of x;
// it is a bijection (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// gamma steps the state of a generator over all values of 64 bits.
const gamma = 0x9e3779b97f4a7c15

// A random is a small generator for the measured loops; it costs about a
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

// A zipf draws ranks below n, rank r with a probability in proportion to
// 1/(r+1)^theta, by the method of Gray and others ("Quickly generating
// billion-record synthetic databases", 1994), which YCSB uses as well.
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

// key draws a key: the ranks are spread over the key space, so that the
// popular keys are not neighbours.
func (z *zipf) key(r *random) uint64 { return scale(mix(z.rank(r)+gamma), z.n) }
