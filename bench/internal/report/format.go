package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/stoatdb/stoat/bench/internal/workload"
)

// number writes v with three digits, or all digits before the point, and groups
// thousands.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case a >= 1000:
		return group(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// group puts a comma before each three digits.
func group(digits string) string {
	sign := ""
	if rest, ok := strings.CutPrefix(digits, "-"); ok {
		sign, digits = "-", rest
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// text writes the median of a cell, or why it has none.
func (c Cell) text() string {
	switch {
	case c.ok():
		return number(c.Median)
	case c.Status == workload.Wrong:
		return "WRONG"
	case c.failed():
		return string(c.Status)
	}
	return "–"
}

// spreadText writes the range of the repeats.
func (c Cell) spreadText() string {
	if !c.ok() {
		return c.Detail
	}
	if c.Repeats == 1 {
		return "one run"
	}
	return fmt.Sprintf("%s to %s in %d runs", number(c.Min), number(c.Max), c.Repeats)
}

// oursText writes our figure for a comparison with that of bestText.
func (l Line) oursText() string {
	if l.Shared && l.Best >= 0 && oursOf(l).ok() {
		return number(l.Ours)
	}
	return oursOf(l).text()
}

// bestText writes the best peer and its figure. If stoat has a figure, that is of the repeats
// that both have.
func (l Line) bestText() string {
	if l.Best < 0 {
		return "–"
	}
	best := l.Cells[l.Best]
	if l.Shared && oursOf(l).ok() {
		return best.Store + " " + number(l.Theirs)
	}
	return best.Store + " " + best.text()
}

func (l Line) ratioText() string {
	if math.IsNaN(l.Ratio) {
		return "–"
	}
	return fmt.Sprintf("%.2f ×", l.Ratio)
}

func (l Line) spreadText() string {
	if l.Spread == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*l.Spread)
}

// intervalText writes the interval of what the target limits, or of the ratio
// in a row without a target.
func (l Line) intervalText() string {
	i := l.Judged
	if l.Target.Kind == NoTarget {
		i = l.Ratios
	}
	if !i.Known() {
		return "–"
	}
	return number(i.Low) + " to " + number(i.High)
}

// verdict writes the verdict, and why a target is skipped although stoat has a
// figure.
func (l Line) verdict() string {
	if l.Verdict == Skipped && oursOf(l).ok() && l.Missing != nil {
		return "skipped: no figure of " + strings.Join(l.Missing, ", ")
	}
	return string(l.Verdict)
}
