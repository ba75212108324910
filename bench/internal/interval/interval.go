package interval

import (
	"math"
	"slices"
)

// An Interval holds the true figure with a certain confidence. Without a bound
// it is infinite on that side.
type Interval struct{ Low, High float64 }

// Unbounded is the interval of a figure about which the samples say nothing.
func Unbounded() Interval { return Interval{math.Inf(-1), math.Inf(1)} }

// Known returns whether both bounds are finite.
func (i Interval) Known() bool {
	return !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) && !math.IsNaN(i.Low) && !math.IsNaN(i.High)
}

// SamplesMin is the smallest number of samples that Typical judges.
const SamplesMin = 3

// studentT holds the quantiles 0.975 of Student's distribution for 2 and more
// degrees of freedom. More degrees than the table has use its last entry, which
// makes the interval a little too wide.
var studentT = [...]float64{4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228}

// Typical returns the interval of 95 % for the typical value behind a few
// samples. It is Student's interval of the mean of their logarithms. Times,
// rates and their ratios vary by factors, so their logarithms vary evenly.
//
// With three to seven samples, an interval between two of the samples cannot
// reach 95 %, and resampling them yields intervals that are too narrow. Samples
// of zero or less have no logarithm; the interval is then that of their mean.
func Typical(samples []float64) Interval {
	n := len(samples)
	if n < SamplesMin || slices.ContainsFunc(samples, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return Unbounded()
	}
	if slices.Min(samples) == slices.Max(samples) {
		return Interval{samples[0], samples[0]}
	}
	if slices.Min(samples) <= 0 {
		return student(samples)
	}
	logs := make([]float64, n)
	for i, v := range samples {
		logs[i] = math.Log(v)
	}
	i := student(logs)
	return Interval{math.Exp(i.Low), math.Exp(i.High)}
}

// student returns Student's interval of the mean. There are at least three
// samples.
func student(samples []float64) Interval {
	n := float64(len(samples))
	var sum, squares float64
	for _, v := range samples {
		sum += v
	}
	mean := sum / n
	for _, v := range samples {
		squares += (v - mean) * (v - mean)
	}
	t := studentT[min(len(samples)-SamplesMin, len(studentT)-1)]
	half := t * math.Sqrt(squares/(n-1)/n)
	return Interval{mean - half, mean + half}
}

// Shift returns an interval for the centre of a symmetric distribution, and its
// estimate, with an error of at most alpha on both sides together.
//
// The interval is that of Hodges and Lehmann: it belongs to Wilcoxon's
// signed-rank test, whose exact distribution this function counts. A few wild
// samples move it little. Too few samples for alpha yield an unbounded interval.
func Shift(samples []float64, alpha float64) (centre float64, i Interval) {
	if len(samples) == 0 {
		return math.NaN(), Unbounded()
	}
	var means []float64
	for a := range samples {
		for b := a; b < len(samples); b++ {
			means = append(means, (samples[a]+samples[b])/2)
		}
	}
	slices.Sort(means)
	m := len(means)
	centre = (means[(m-1)/2] + means[m/2]) / 2
	skip := signedRankBelow(len(samples), alpha/2)
	if skip < 0 {
		return centre, Unbounded()
	}
	return centre, Interval{means[skip], means[m-1-skip]}
}

// signedRankBelow returns the largest rank sum whose probability, with all
// smaller ones, is at most tail for n symmetric samples. It is -1 if even a rank
// sum of zero is more probable.
func signedRankBelow(n int, tail float64) int {
	ways := make([]float64, n*(n+1)/2+1) // subsets of the ranks with that sum
	ways[0] = 1
	for rank := 1; rank <= n; rank++ {
		for sum := len(ways) - 1; sum >= rank; sum-- {
			ways[sum] += ways[sum-rank]
		}
	}
	all, below := math.Pow(2, float64(n)), 0.0
	for sum, w := range ways {
		if below += w; below/all > tail {
			return sum - 1
		}
	}
	return len(ways) - 1
}
