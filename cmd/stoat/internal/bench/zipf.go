package bench

import (
	"math"
	"math/rand/v2"
)

// A zipf draws numbers below n. The probability of k is proportional to
// 1/(k+1)^s. The method is that of Gray et al. (SIGMOD 1994). The generator of
// the standard library does not support s below 1.
type zipf struct {
	n               float64
	s, zeta, eta, a float64
}

// newZipf returns a zipf. s must be greater than 0 and less than 1.
func newZipf(n uint64, s float64) *zipf {
	z := &zipf{n: float64(n), s: s, a: 1 / (1 - s)}
	for k := range n {
		z.zeta += math.Pow(float64(k+1), -s)
	}
	two := 1 + math.Pow(2, -s)
	z.eta = (1 - math.Pow(2/z.n, 1-s)) / (1 - two/z.zeta)
	return z
}

func (z *zipf) draw(r *rand.Rand) uint64 {
	u := r.Float64()
	switch at := u * z.zeta; {
	case at < 1:
		return 0
	case at < 1+math.Pow(2, -z.s):
		return uint64(min(1, z.n-1))
	}
	k := z.n * math.Pow(z.eta*u-z.eta+1, z.a)
	return uint64(min(max(k, 0), z.n-1))
}
