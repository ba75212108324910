package bench

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const (
	barWidth     = 40
	redrawEvery  = 100 * time.Millisecond
	plainEvery   = 10 * time.Second
	clearLine    = "\r\x1b[K"
	nameWidth    = 44
	fullBlock    = "█"
	emptyBlock   = "░"
	unknownShare = -1
)

// progress shows the current phase: on a terminal as a bar that is cleared at the
// end, elsewhere as a plain line every plainEvery.
type progress struct {
	w        io.Writer
	terminal bool
}

// watch shows a phase until the returned function is called. share returns the
// progress from 0 to 1; nil means that it is unknown.
func (p *progress) watch(name string, share func() float64) (stop func()) {
	if share == nil {
		share = func() float64 { return unknownShare }
	}
	every := plainEvery
	if p.terminal {
		every = redrawEvery
		p.draw(name, share())
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				p.draw(name, share())
			}
		}
	})
	return func() {
		close(quit)
		wg.Wait()
		if p.terminal {
			fmt.Fprint(p.w, clearLine)
		}
	}
}

// draw writes one state of the bar, or one plain line.
func (p *progress) draw(name string, share float64) {
	percent := ""
	if share != unknownShare {
		share = min(max(share, 0), 1)
		percent = fmt.Sprintf("%3.0f %%", 100*share)
	}
	if !p.terminal {
		fmt.Fprintf(p.w, "%s %s\n", name, percent)
		return
	}
	bar := ""
	if share != unknownShare {
		full := int(share * barWidth)
		bar = strings.Repeat(fullBlock, full) + strings.Repeat(emptyBlock, barWidth-full)
	}
	fmt.Fprintf(p.w, "%s  %-*s %s %s", clearLine, nameWidth, name, bar, percent)
}
