package bench

import (
	"bytes"
	"strings"
	"testing"
)

func TestProgress_OnATerminalDrawsABarAndClearsIt(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{w: &out, terminal: true}
	p.watch("load", func() float64 { return 0.5 })()
	got := out.String()
	if !strings.Contains(got, strings.Repeat(fullBlock, barWidth/2)+strings.Repeat(emptyBlock, barWidth/2)) || !strings.Contains(got, " 50 %") {
		t.Errorf("no bar at one half in %q", got)
	}
	if !strings.HasSuffix(got, clearLine) {
		t.Errorf("the line is not cleared: %q", got)
	}
	if strings.Contains(got, "\n") {
		t.Errorf("the bar moves down: %q", got)
	}
}

func TestProgress_ElsewhereIsPlain(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{w: &out}
	p.watch("load", nil)()
	if out.Len() != 0 {
		t.Errorf("a short phase printed %q", out.String())
	}
	p.draw("load", 0.256)
	p.draw("open", unknownShare)
	if got, want := out.String(), "load  26 %\nopen \n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestProgress_NeverLeavesTheBar(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{-0.5, 0, 1, 1.7} {
		var out bytes.Buffer
		(&progress{w: &out, terminal: true}).draw("x", share)
		if n := strings.Count(out.String(), fullBlock) + strings.Count(out.String(), emptyBlock); n != barWidth {
			t.Errorf("share %g draws %d blocks, want %d", share, n, barWidth)
		}
	}
}
