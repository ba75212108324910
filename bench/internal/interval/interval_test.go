package interval

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTypical_IsStudentsIntervalOfTheLogarithms(t *testing.T) {
	t.Parallel()
	// The logarithms are -0.1, 0 and 0.1: mean 0, deviation 0.1.
	samples := []float64{math.Exp(-0.1), 1, math.Exp(0.1)}
	half := 4.303 * 0.1 / math.Sqrt(3)
	got := Typical(samples)
	if math.Abs(got.Low-math.Exp(-half)) > 1e-9 || math.Abs(got.High-math.Exp(half)) > 1e-9 {
		t.Errorf("%+v, want e to the power of ±%v", got, half)
	}
}

func TestTypical_TooFewSamplesSayNothing(t *testing.T) {
	t.Parallel()
	for _, samples := range [][]float64{nil, {1}, {1, 1}, {1, 1, math.NaN()}, {1, 2, math.Inf(1)}} {
		if got := Typical(samples); got.Known() {
			t.Errorf("%v: %+v, want no interval", samples, got)
		}
	}
}

func TestTypical_EqualSamplesAndZeros(t *testing.T) {
	t.Parallel()
	if got := (Typical([]float64{0, 0, 0})); got != (Interval{0, 0}) {
		t.Errorf("zeros: %+v", got)
	}
	if got := Typical([]float64{0, 1, 2}); !got.Known() || got.Low > 0 || got.High < 1 {
		t.Errorf("with a zero: %+v, want an interval around 1", got)
	}
}

// coverage returns how often intervals hold the truth.
func coverage(draw func(rng *rand.Rand) (Interval, float64)) float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	const trials = 4000
	held := 0
	for range trials {
		if i, truth := draw(rng); i.Low <= truth && truth <= i.High {
			held++
		}
	}
	return float64(held) / trials
}

func TestTypical_HoldsTheTruthNineteenTimesInTwenty(t *testing.T) {
	t.Parallel()
	for n := SamplesMin; n <= 14; n++ {
		got := coverage(func(rng *rand.Rand) (Interval, float64) {
			samples := make([]float64, n)
			for i := range samples {
				samples[i] = 500 * math.Exp(0.2*rng.NormFloat64())
			}
			return Typical(samples), 500
		})
		if got < 0.94 || got > 0.97 {
			t.Errorf("%d samples: the interval holds the truth in %.3f of all cases, want 0.95", n, got)
		}
	}
}

func TestShift_HoldsTheCentreDespiteWildSamples(t *testing.T) {
	t.Parallel()
	for _, alpha := range []float64{0.1, 0.01} {
		got := coverage(func(rng *rand.Rand) (Interval, float64) {
			samples := make([]float64, 12)
			for i := range samples {
				samples[i] = 3 + 0.1*rng.NormFloat64()
				if rng.IntN(6) == 0 {
					samples[i] = 3 + 10*rng.NormFloat64()
				}
			}
			_, i := Shift(samples, alpha)
			return i, 3
		})
		if got < 1-alpha-0.01 || got > 1-alpha/4 {
			t.Errorf("alpha %v: the interval holds the centre in %.3f of all cases", alpha, got)
		}
	}
}

func TestShift_CountsTheExactDistribution(t *testing.T) {
	t.Parallel()
	// Of the 64 signs of six samples, one has rank sum 0, one has 1, one has 2,
	// and two have 3.
	for tail, want := range map[float64]int{0.5 / 64: -1, 1.5 / 64: 0, 2.5 / 64: 1, 3.5 / 64: 2, 5.5 / 64: 3} {
		if got := signedRankBelow(6, tail); got != want {
			t.Errorf("tail %v: %d, want %d", tail, got, want)
		}
	}
	if _, i := Shift([]float64{1, 2, 3}, 0.05); i.Known() {
		t.Errorf("three samples have the interval %+v at an error of 0.05, want none", i)
	}
	if centre, i := Shift([]float64{1, 2, 3, 4, 5, 6}, 0.05); centre != 3.5 || i != (Interval{1, 6}) {
		t.Errorf("centre %v, interval %+v, want 3.5 and 1 to 6", centre, i)
	}
}
