package growth

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// series returns the points of a law at the sizes of the comparison, with noise.
func series(noise float64, law func(keys float64) float64) []Point {
	rng := rand.New(rand.NewPCG(5, 6))
	var points []Point
	for _, keys := range []float64{50e6, 1e6, 2e6, 5e6, 10e6, 20e6} {
		points = append(points, Point{keys, law(keys) * math.Exp(noise*rng.NormFloat64())})
	}
	return points
}

var known = map[Law]func(keys float64) float64{
	Constant:  func(float64) float64 { return 42 },
	Logarithm: func(keys float64) float64 { return 1 + 0.3*math.Log2(keys/1e6) },
	Power:     func(keys float64) float64 { return 0.001 * math.Pow(keys, 0.8) },
}

func TestFit_FindsTheLawBehindThePoints(t *testing.T) {
	t.Parallel()
	for want, law := range known {
		m, err := Fit(series(0.001, law))
		if err != nil {
			t.Fatal(err)
		}
		if m.Law != want {
			t.Errorf("the law is %s, want %s", m.Law, want)
		}
		const far = 2e9
		if got := m.At(far); math.Abs(got/law(far)-1) > 0.03 {
			t.Errorf("%s: %v at %v keys, want %v", want, got, far, law(far))
		}
		if m.Error > 1.02 {
			t.Errorf("%s: the error of the checks is %v", want, m.Error)
		}
	}
}

func TestFit_TheRangeOfNoisyPointsHoldsTheTruth(t *testing.T) {
	t.Parallel()
	for want, law := range known {
		m, err := Fit(series(0.05, law))
		if err != nil {
			t.Fatal(err)
		}
		low, high := m.Range(250e6)
		if truth := law(250e6); truth < low*0.9 || truth > high*1.1 {
			t.Errorf("%s: %v to %v at 250 M keys, want %v", want, low, high, truth)
		}
	}
}

func TestFit_PointsHeldOutShowALawThatBreaks(t *testing.T) {
	t.Parallel()
	// From 20 M keys on, the figure doubles: the data no longer fits a cache.
	m, err := Fit(series(0.001, func(keys float64) float64 {
		if keys >= 20e6 {
			return 84
		}
		return 42
	}))
	if err != nil {
		t.Fatal(err)
	}
	if m.Error < 1.9 || len(m.Checked) != 2 || m.Checked[1].Keys != 50e6 {
		t.Errorf("error %v of the checks %+v, want a factor of two at 20 M and 50 M keys", m.Error, m.Checked)
	}
	near, _ := m.Range(60e6)
	far, _ := m.Range(2e9)
	if m.At(2e9)/far < 2*m.At(60e6)/near {
		t.Errorf("the range at 2 G keys, %v, is not much wider than at 60 M, %v", far, near)
	}
}

func TestFit_ChecksDoNotChooseTheLaw(t *testing.T) {
	t.Parallel()
	points := series(0.001, known[Power])
	points[0].Value *= 100 // of 50 M keys
	m, err := Fit(points)
	if err != nil {
		t.Fatal(err)
	}
	if m.Law != Power || m.Error < 90 {
		t.Errorf("law %s, error %v, want the law of the smaller points and an error of about 100", m.Law, m.Error)
	}
}

func TestFit_RefusesTooFewPointsAndNoFigures(t *testing.T) {
	t.Parallel()
	if _, err := Fit(series(0, known[Constant])[:3]); !errors.Is(err, ErrTooFew) {
		t.Errorf("three points: %v, want ErrTooFew", err)
	}
	short, err := Fit(series(0, known[Constant])[:4])
	if err != nil || len(short.Checked) != 1 {
		t.Errorf("four points: %+v, %v, want one check", short, err)
	}
	if _, err := Fit([]Point{{1, 1}, {2, 0}, {3, 1}, {4, 1}, {5, 1}}); err == nil {
		t.Error("a figure of zero is accepted")
	}
}
