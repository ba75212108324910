package report

import (
	"math"
	"slices"
	"time"

	"github.com/stoatdb/stoat/bench/internal/comparison"
	"github.com/stoatdb/stoat/bench/internal/interval"
)

// A sample is the figure of one repeat, with when and where it was measured.
type sample struct {
	value   float64
	began   time.Time
	machine comparison.Machine // with its revision of stoat
}

// soon is how far apart two results of one repeat may begin that a ratio compares. The
// longest job takes seven minutes, and a turn has ten stores, so two hours include every turn.
// From day to day the machine drifts by 10 to 20 %.
const soon = 2 * time.Hour

// near returns whether two samples were measured on one machine, by one revision and soon
// after each other. Then a slow drift of the machine cancels out in their ratio.
func (s sample) near(o sample) bool {
	return s.machine == o.machine && s.began.Sub(o.began).Abs() <= soon
}

// A pairing holds the figures of two cells that a ratio rests on. They are those of the
// repeats in which both ran soon after each other. Where there are none, they are apart: the
// figures of the repeats that both have, or else all figures.
type pairing struct {
	mine, other []float64
	apart       bool
	repeats     int // that both have among these
}

// pair chooses the repeats in which two cells are compared.
func pair(mine, other Cell) pairing {
	if p := pairWhere(mine, other, sample.near); p.repeats > 0 {
		return p
	}
	p := pairWhere(mine, other, func(sample, sample) bool { return true })
	if p.repeats == 0 {
		p.mine, p.other = samplesOf(mine), samplesOf(other)
	}
	p.apart = true
	return p
}

// pairWhere returns the figures of the repeats that both cells have and that belong together.
func pairWhere(mine, other Cell, together func(a, b sample) bool) (p pairing) {
	for repeat, m := range mine.Samples {
		if o, ok := other.Samples[repeat]; ok && together(m, o) {
			p.mine, p.other = append(p.mine, m.value), append(p.other, o.value)
			p.repeats++
		}
	}
	return p
}

// few returns whether the repeats are too few for an interval.
func (p pairing) few() bool { return p.repeats < interval.SamplesMin }

// ratios returns the ratio of each repeat. There is none if the figures are apart, or if the
// other figure is zero in a repeat.
func (p pairing) ratios() (all []float64) {
	if p.apart || slices.Min(p.other) <= 0 {
		return nil
	}
	for i, o := range p.other {
		all = append(all, p.mine[i]/o)
	}
	return all
}

// ratio returns the middle of the ratios of the repeats, or else the ratio of the middles. What
// slows both in a repeat cancels out. It is infinite or NaN if the other middle is zero.
func (p pairing) ratio() float64 {
	if ratios := p.ratios(); ratios != nil {
		return middle(ratios)
	}
	return middle(p.mine) / middle(p.other)
}

// interval returns the interval of the ratio.
func (p pairing) interval() interval.Interval { return interval.Typical(p.ratios()) }

// clears returns whether the ratio reaches a target by more than factor.
func (p pairing) clears(bound, factor float64, higher bool) bool {
	if higher {
		return p.ratio() >= bound*factor
	}
	return p.ratio()*factor <= bound
}

// middle returns the median. Of two figures it is their geometric mean, because figures vary by
// factors.
func middle(values []float64) float64 {
	if len(values) == 2 && values[0] >= 0 && values[1] >= 0 {
		return math.Sqrt(values[0] * values[1])
	}
	return median(slices.Clone(values))
}

func samplesOf(c Cell) []float64 {
	var all []float64
	for _, s := range c.Samples {
		all = append(all, s.value)
	}
	return all
}
