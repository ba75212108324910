package growth

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Point is a figure at a number of keys. Both are above zero.
type Point struct{ Keys, Value float64 }

// A Law says how a figure grows with the number of keys.
type Law string

// The laws, from the simplest.
const (
	// Constant: the figure does not depend on the number of keys.
	Constant Law = "constant"
	// Logarithm: each doubling adds the same amount. The levels of a tree grow
	// so, and with them the rewriting of a key.
	Logarithm Law = "logarithm"
	// Power: each doubling multiplies by the same factor. The size of an index
	// grows so.
	Power Law = "power"
)

// laws are all laws. Of laws with equal errors, the first counts.
var laws = []Law{Constant, Logarithm, Power}

// A Model is a law with its two parameters, and how well it predicted points
// that it had not seen.
type Model struct {
	Law  Law
	a, b float64

	// Checked are the points held out, with what a model of the smaller points
	// predicted for them.
	Checked []Check

	// Error is the largest error of the checks, as a factor of at least 1.
	Error float64
}

// A Check compares a prediction with a point held out.
type Check struct {
	Point
	Predicted float64
}

// factor returns the error as a factor of at least 1.
func (c Check) factor() float64 {
	if c.Predicted <= 0 {
		return math.Inf(1)
	}
	return max(c.Predicted/c.Value, c.Value/c.Predicted)
}

const (
	// heldOut is the number of the largest points that check a model. They are
	// what a projection is asked for: sizes beyond those it was fitted to.
	heldOut = 2

	// fitMin is the smallest number of points that a model is fitted to.
	fitMin = 2

	// exact is the sum of squared errors of a law that fits but for rounding.
	exact = 1e-12
)

// ErrTooFew says that there are too few points to fit and to check a model.
var ErrTooFew = errors.New("too few points")

// Fit chooses a law, checks it and fits it to all points. The law is the one
// that predicts each point but the largest two best from the others. The largest
// two choose nothing: they check the law, fitted to the smaller points alone.
func Fit(points []Point) (Model, error) {
	points = slices.Clone(points)
	slices.SortFunc(points, func(a, b Point) int { return int(math.Copysign(1, a.Keys-b.Keys)) })
	for _, p := range points {
		if !(p.Keys > 0 && p.Value > 0) {
			return Model{}, fmt.Errorf("a point of %v keys has the figure %v", p.Keys, p.Value)
		}
	}
	held := heldOut
	if len(points) < fitMin+heldOut+1 {
		held = 1 // a short series checks one point
	}
	if len(points) < fitMin+held+1 {
		return Model{}, fmt.Errorf("%w: %d, want at least %d", ErrTooFew, len(points), fitMin+held+1)
	}
	small := points[:len(points)-held]
	law := choose(small)
	smaller, all := fit(law, small), fit(law, points)
	all.Error = 1
	for _, p := range points[len(points)-held:] {
		c := Check{Point: p, Predicted: smaller.At(p.Keys)}
		all.Checked = append(all.Checked, c)
		all.Error = max(all.Error, c.factor())
	}
	return all, nil
}

// choose returns the law with the smallest error when each point is predicted
// from the others.
func choose(points []Point) Law {
	best, least := laws[0], math.Inf(1)
	for _, law := range laws {
		sum := 0.0
		for i, p := range points {
			others := slices.Delete(slices.Clone(points), i, i+1)
			e := math.Log(Check{Point: p, Predicted: fit(law, others).At(p.Keys)}.factor())
			sum += e * e
		}
		// A more complex law must be clearly better, or it follows the noise. An
		// error below exact is none.
		if sum < least*0.8 && least > exact {
			best, least = law, sum
		}
	}
	return best
}

// fit fits a law by least squares. A Power law and a Constant are fitted to the
// logarithms of the figures, because their errors are factors.
func fit(law Law, points []Point) Model {
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		x, y := math.Log(p.Keys), p.Value
		if law != Logarithm {
			y = math.Log(p.Value)
		}
		if law == Constant {
			x = 0
		}
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	m := Model{Law: law}
	if d := n*sxx - sx*sx; d > 1e-12 {
		m.b = (n*sxy - sx*sy) / d
	}
	m.a = (sy - m.b*sx) / n
	return m
}

// At returns the figure that the model expects at a number of keys.
func (m Model) At(keys float64) float64 {
	y := m.a + m.b*math.Log(keys)
	if m.Law == Logarithm {
		return y
	}
	return math.Exp(y)
}

// Range returns the figure at a number of keys, divided and multiplied by the
// error of the checks. The checks reach a few doublings beyond the fitted points.
// A projection further out takes that error once for each such distance.
func (m Model) Range(keys float64) (low, high float64) {
	y := m.At(keys)
	e := math.Pow(m.Error, max(m.distance(keys), 1))
	return y / e, y * e
}

// distance returns how far beyond the largest point a number of keys is, in
// units of the distance that the checks covered.
func (m Model) distance(keys float64) float64 {
	if len(m.Checked) == 0 {
		return math.Inf(1)
	}
	first, last := m.Checked[0].Keys, m.Checked[len(m.Checked)-1].Keys
	return math.Log(keys/last) / math.Log(max(last/first, 2))
}
