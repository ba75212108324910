package bench

import (
	"fmt"
	"strconv"
	"time"
)

// three formats v with three significant digits.
func three(v float64) string {
	switch {
	case v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// scaled formats v with the largest unit that gives at least one. Each unit is a
// thousand times the previous one.
func scaled(v float64, units ...string) string {
	i := 0
	for v >= 999.5 && i < len(units)-1 {
		v /= 1000
		i++
	}
	return three(v) + " " + units[i]
}

// perSecond formats a rate.
func perSecond(ops uint64, elapsed time.Duration) string {
	return scaled(float64(ops)/elapsed.Seconds(), "/s", "k/s", "M/s")
}

// duration formats a duration given in nanoseconds.
func duration(ns float64) string { return scaled(ns, "ns", "µs", "ms", "s") }

// size formats a number of bytes.
func size(n int64) string { return scaled(float64(n), "B", "kB", "MB", "GB", "TB") }

// count formats a number with commas.
func count[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
