package main

import (
	"fmt"
	"math"
	"time"
)

// A line shows progress on a terminal. On other outputs it writes nothing.
type line struct {
	c    *call
	on   bool
	next time.Time // the earliest time of the next update
}

func (c *call) newLine(quiet bool) *line { return &line{c: c, on: !quiet && isTerminal(c.err)} }

// show shows that done of total bytes are processed.
func (l *line) show(what string, done, total int64) {
	if now := time.Now(); l.on && now.After(l.next) {
		l.next = now.Add(100 * time.Millisecond)
		fmt.Fprintf(l.c.err, "\r%s %s of %s\x1b[K", what, bytesText(done), bytesText(total))
	}
}

// clear removes the line.
func (l *line) clear() {
	if l.on {
		fmt.Fprint(l.c.err, "\r\x1b[K")
	}
}

// bytesText formats a number of bytes.
func bytesText(n int64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB"}
	v, i := float64(n), 0
	for math.Round(v*10) >= 10_000 && i < len(units)-1 {
		v /= 1000
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}
